//! `shockwave token` and `user`: accounts.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use shockwave_proto::v1::{
    CreateTokenRequest, ListTokensRequest, RevokeTokenRequest, TokenInfo, UserTerms,
};

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::json;
use super::table::{self, or_dash};

/// Makes, lists and revokes tokens
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: TokenAction,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Makes a token; its secret is printed once.
    Create {
        /// Account that it speaks for.
        user: String,
        /// May do everything.
        #[arg(long)]
        admin: bool,
        /// Carries one machine's agent and nothing else: the first machine that joins with it.
        #[arg(long, conflicts_with = "admin")]
        agent: bool,
        /// How long it is good for, days.
        #[arg(long, default_value_t = 90.0)]
        days: f64,
        /// What it is for.
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Lists tokens, without secrets.
    List,
    /// Ends a token.
    Revoke {
        /// Number of the token.
        id: u64,
    },
}

/// A user's budget and cap
#[derive(Debug, Args)]
pub struct UserArgs {
    /// Account
    pub user: String,
    /// Factor on the weights of its jobs [default: as it is]
    #[arg(long, default_value_t = 0.0)]
    pub weight: f64,
    /// Most devices that its jobs hold together [default: no cap]
    #[arg(long)]
    pub gpus_max: Option<u32>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

#[derive(Debug, Serialize)]
struct Token {
    id: u64,
    user: String,
    is_admin: bool,
    is_agent: bool,
    /// Machine that it carries.
    node: String,
    state: &'static str,
    expires_unix_s: Option<f64>,
    note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl From<TokenInfo> for Token {
    fn from(info: TokenInfo) -> Self {
        let now_s = crate::store::unix_now_s();
        let state = match (info.revoked_unix_s, info.expires_unix_s) {
            (Some(_), _) => "revoked",
            (None, Some(end_s)) if end_s <= now_s => "expired",
            _ => "good",
        };
        Self {
            id: info.id,
            user: info.user,
            is_admin: info.is_admin,
            is_agent: info.is_agent,
            node: info.node,
            state,
            expires_unix_s: info.expires_unix_s,
            note: info.note,
            secret: None,
        }
    }
}

/// Runs `token`.
pub(super) fn run(args: &TokenArgs) -> ExitCode {
    run_async(async {
        let mut admin = args.coordinator.connect_admin().await?;
        match &args.action {
            TokenAction::Create { user, admin: is_admin, agent: is_agent, days, note } => {
                let request = CreateTokenRequest {
                    user: user.clone(),
                    is_admin: *is_admin,
                    lifetime_s: days * 86_400.0,
                    note: note.clone(),
                    is_agent: *is_agent,
                };
                let reply = admin.create_token(request).await?.into_inner();
                let mut token = Token::from(reply.token.unwrap_or_default());
                token.secret = Some(reply.secret);
                created(&token, args.coordinator.json)?;
            }
            TokenAction::List => {
                let reply = admin.list_tokens(ListTokensRequest {}).await?.into_inner();
                let tokens: Vec<Token> = reply.tokens.into_iter().map(Token::from).collect();
                list(&tokens, args.coordinator.json)?;
            }
            TokenAction::Revoke { id } => {
                let request = RevokeTokenRequest { id: *id };
                let token = Token::from(admin.revoke_token(request).await?.into_inner());
                list(&[token], args.coordinator.json)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn created(token: &Token, as_json: bool) -> Result<(), CliError> {
    if as_json {
        return json::print("token", token);
    }
    let secret = token.secret.as_deref().unwrap_or_default();
    table::print(&format!(
        "token {} of {}; shown this once, kept nowhere:\n{secret}\nuse it with {}={secret}",
        token.id,
        token.user,
        shockwave_proto::env::TOKEN
    ))
}

fn list(tokens: &[Token], as_json: bool) -> Result<(), CliError> {
    if as_json {
        return json::print("tokens", &tokens);
    }
    let row = |it: &Token| {
        let left = it.expires_unix_s.map(|end_s| end_s - crate::store::unix_now_s());
        vec![
            it.id.to_string(),
            it.user.clone(),
            match (it.is_admin, it.is_agent) {
                (true, _) => "admin".to_owned(),
                (_, true) => format!("agent {}", it.node).trim_end().to_owned(),
                _ => "user".to_owned(),
            },
            it.state.to_owned(),
            or_dash(left.map(table::duration)),
            it.note.clone(),
        ]
    };
    let rows: Vec<_> = tokens.iter().map(row).collect();
    table::print(&table::table(&["ID", "USER", "ROLE", "STATE", "EXPIRES IN", "NOTE"], &rows))
}

/// Runs `user`.
pub(super) fn user(args: &UserArgs) -> ExitCode {
    run_async(async {
        let mut admin = args.coordinator.connect_admin().await?;
        let terms =
            UserTerms { user: args.user.clone(), weight: args.weight, gpus_max: args.gpus_max };
        let terms = admin.set_user(terms).await?.into_inner();
        if args.coordinator.json {
            let value = serde_json::json!({
                "user": terms.user, "weight": terms.weight, "gpus_max": terms.gpus_max,
            });
            json::print("user", &value)?;
        } else {
            let cap = terms.gpus_max.map_or_else(|| "no cap".into(), |cap| format!("cap {cap}"));
            table::print(&format!("user {}: weight {}, {cap}", terms.user, terms.weight))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
