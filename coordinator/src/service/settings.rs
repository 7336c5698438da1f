//! What a coordinator is configured to; part of the log, since what is replayed depends on it.

use serde::{Deserialize, Serialize};
use shockwave_core::engine::{self, Engine};
use shockwave_core::policies::{self, Policy, Tuning};
use shockwave_core::predictor::{self, Predictor, Profile};

/// The configuration that decisions depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The engine's settings.
    pub engine: engine::Settings,
    /// Name of the policy.
    pub policy: String,
    /// Settings of its market.
    #[serde(default)]
    pub tuning: Tuning,
    /// Name of the predictor.
    pub predictor: String,
    /// Most bytes of log kept for a job, bytes.
    pub log_bytes_max: u64,
    /// Most jobs that have not ended.
    pub jobs_max: u64,
    /// Whether somebody is told of jobs' ends and yields.
    #[serde(default)]
    pub notices: bool,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            engine: engine::Settings {
                planning: engine::Planning::Beside,
                ..engine::Settings::default()
            },
            policy: "shockwave".into(),
            tuning: Tuning::default(),
            predictor: predictor::DEFAULT.into(),
            log_bytes_max: 64 << 20,
            jobs_max: 100_000,
            notices: false,
        }
    }
}

/// A configuration that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// A setting of the engine.
    #[error(transparent)]
    Setting(#[from] engine::SettingsError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] policies::PolicyError),
    /// The predictor's name.
    #[error(transparent)]
    Predictor(#[from] predictor::UnknownPredictor),
}

impl Configuration {
    /// A new instance of the policy.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be set so.
    pub fn policy(&self) -> Result<Box<dyn Policy>, ConfigurationError> {
        Ok(policies::tuned(&self.policy, &self.tuning)?)
    }

    /// A new instance of the predictor.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn predictor(&self) -> Result<Box<dyn Predictor>, ConfigurationError> {
        Ok(predictor::by_name(&self.predictor, Profile::default())?)
    }

    /// A new engine.
    ///
    /// # Errors
    /// When a setting or a name cannot be.
    pub fn engine(&self) -> Result<Engine, ConfigurationError> {
        Ok(Engine::new(self.engine.clone(), self.policy()?, self.predictor()?)?)
    }

    /// An engine as it was.
    ///
    /// # Errors
    /// In one sentence.
    pub fn restore(&self, snapshot: engine::Snapshot) -> Result<Engine, String> {
        let policy = self.policy().map_err(|error| error.to_string())?;
        let predictor = self.predictor().map_err(|error| error.to_string())?;
        Engine::restore(snapshot, policy, predictor).map_err(|error| error.to_string())
    }

    /// Lets an engine go on with this configuration.
    ///
    /// # Errors
    /// When a setting or a name cannot be; the engine is as it was.
    pub fn apply_to(&self, engine: &mut Engine) -> Result<(), ConfigurationError> {
        let (policy, predictor) = (self.policy()?, self.predictor()?);
        Ok(engine.reconfigure(self.engine.clone(), policy, predictor)?)
    }
}
