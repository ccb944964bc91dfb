//! Explains why one of noctule's own programs could not be started.

use noctule_text::escape;
use noctule_trace::session::SessionError;
use noctule_trace::source::Problem;
use noctule_trace::verifier;

use crate::exit::Explained;

/// Returns the error for the programs of `name`. If the verifier reports a position, the error
/// points to that position in the user's text (`source`).
pub(super) fn not_started(name: &str, source: Option<&str>, error: SessionError) -> anyhow::Error {
    let SessionError::Refused {
        errno, origin, log, ..
    } = error
    else {
        return match error {
            SessionError::Kernel(error) => anyhow::Error::from(error),
            error => anyhow::Error::from(error),
        }
        .context(name.to_owned());
    };
    let why = verifier::explain(&log, errno).to_string();
    let why: Vec<_> = why.lines().map(escape).collect();
    let mut text = format!(
        "{}: the kernel refuses the program\n{}",
        escape(name),
        why.join("\n")
    );
    if let (Some(span), Some(source)) = (origin, source) {
        let shown = Problem::new(span, "").show(source);
        let place: Vec<_> = shown.lines().skip(1).collect();
        text += &format!("\n  generated for:\n{}", place.join("\n"));
    }
    let not_allowed = true;
    Explained { text, not_allowed }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use noctule_kernel::{Error, ErrorKind};
    use noctule_trace::source::Span;

    #[test]
    fn refusal_points_at_the_users_text() {
        let log = "0: (bf) r6 = r1\n1: (61) r7 = *(u32 *)(r6 +4)\n\
                   invalid bpf_context access off=4 size=4\nprocessed 2 insns\n";
        let refused = |log: &str, errno| SessionError::Refused {
            error: Error::new(ErrorKind::Kernel, "loading"),
            errno,
            origin: Some(Span::new(5, 8)),
            log: log.to_owned(),
        };
        let shown = not_started("a:b", Some("keys=pid"), refused(log, 13)).to_string();
        assert!(shown.starts_with("a:b: the kernel refuses the program\ncontext access: "));
        assert!(
            shown.contains("at: instruction 1: r7 = *(u32 *)(r6 +4)"),
            "{shown}"
        );
        assert!(
            shown.ends_with("\n  generated for:\n  keys=pid\n       ^"),
            "{shown}"
        );
        let shown = not_started("a:b", None, refused("", 1)).to_string();
        assert!(
            shown.contains("this process may not load this kind"),
            "{shown}"
        );
    }
}
