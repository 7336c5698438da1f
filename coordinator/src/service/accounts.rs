//! The tokens that are good, as every call has to know them.

use std::sync::Arc;

use tokio::sync::watch;

use super::apply::State;
use super::book::Token;
use super::owner::Owner;

pub(super) fn tokens(state: &State) -> Arc<Vec<Token>> {
    let good = state.book.tokens.values().filter(|token| token.info.revoked_unix_s.is_none());
    Arc::new(good.cloned().collect())
}

impl Owner {
    /// Tokens that are good, as they change.
    #[must_use]
    pub fn accounts(&self) -> watch::Receiver<Arc<Vec<Token>>> {
        self.accounts.subscribe()
    }

    /// Lets every call know the tokens as they are now, before whoever changed them hears of it.
    pub fn publish_accounts(&mut self) {
        let (tokens, accounts) = (tokens(&self.state), self.accounts.clone());
        // Where the disk refuses they are published all the same: a revoked token is not good.
        self.release(Box::new(move |_| drop(accounts.send_replace(tokens))));
    }
}
