//! Going on under other settings: a coordinator that was started again with another configuration.

use super::{Engine, Settings, SettingsError};
use crate::{
    policies::{
        Policy,
        mechanism::{Mechanism, MechanismConfig},
    },
    predictor::Predictor,
};

impl Engine {
    /// Goes on with these settings, this policy and this predictor. Jobs, leases and nodes stay as
    /// they are; what policy and predictor remember stays where they are of the same kind.
    ///
    /// # Errors
    /// [`SettingsError`] names the first setting that cannot be; nothing has changed then.
    pub fn reconfigure(
        &mut self,
        settings: Settings,
        mut policy: Box<dyn Policy>,
        mut predictor: Box<dyn Predictor>,
    ) -> Result<(), SettingsError> {
        settings.validate()?;
        // A memory that cannot be read is that of another kind.
        if policy.name() == self.policy.name() {
            let _ = policy.recall(&self.policy.memory());
        }
        if predictor.name() == self.predictor.name() {
            let _ = predictor.recall(&self.predictor.memory());
        }
        let state = &mut self.state;
        let same_kind = policy.name() == self.policy.name();
        if settings.round_s != state.settings.round_s || !same_kind {
            state.mechanism = Mechanism::new(MechanismConfig::product(settings.round_s));
        }
        state.clock.set_round_s(settings.round_s, state.now_s);
        state.question = None;
        state.settings = settings;
        state.mechanism.note_change();
        self.policy = policy;
        self.predictor = predictor;
        Ok(())
    }
}
