//! The token in the address: who does not have it gets nothing.

use anyhow::{Context, Result, bail};
use mpisee_profile::options::TOKEN;
use mpisee_through::library::is_token;
use subtle::ConstantTimeEq;

/// The token.
pub struct Token(String);

impl Token {
    /// The token of the environment, which agents have, too; else a random one of 128 bits.
    pub fn new() -> Result<Token> {
        match std::env::var(TOKEN) {
            Ok(token) if is_token(&token) => Ok(Token(token)),
            Ok(_) => bail!(
                "{TOKEN} is no token: 16 letters, digits, - and _ at least; without the variable there is a random one"
            ),
            Err(_) => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).context("the kernel has no random numbers")?;
                Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
            }
        }
    }

    /// Returns whether a text is the token. The time that takes shows nothing but the length.
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// As a part of an address.
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.is("0123456789abcdef"));
        for wrong in [
            "",
            "0123456789abcde",
            "0123456789abcdeF",
            "0123456789abcdef0",
            "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn tokens_are_random() {
        let [one, other] = [Token::new().unwrap(), Token::new().unwrap()];
        assert!(one.text().len() == 32 && !one.is(other.text()) && is_token(one.text()));
    }
}
