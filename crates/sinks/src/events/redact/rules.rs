//! The rules for recognizing secrets: names of values, token formats of well-known services, and
//! options of programs.

/// If the last word of a name is one of these, the value is secret: `DB_PASS`, `db-pass`, `dbPass`.
pub(super) const WORDS: &[&str] = &[
    "pass",
    "passcode",
    "pin",
    "pw",
    "pwd",
    "bearer",
    "jwt",
    "cookie",
    "sig",
    "signature",
    "otp",
    "dsn",
];

/// If a name contains one of these anywhere, the value is secret: `PGPASSWORD`, `accesstoken`.
pub(super) const PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pgpass",
    "storepass",
    "keypass",
    "secret",
    "credential",
    "authorization",
    "apikey",
    "accesskey",
];

/// If a name ends with one of these after separators are removed, the value is secret.
pub(super) const ENDS: &[&str] = &[
    "token",
    "accountkey",
    "authkey",
    "encryptionkey",
    "masterkey",
    "privatekey",
    "secretkey",
    "securitykey",
    "signingkey",
];

/// Last words of names that refer to a secret but do not contain it: a file, a number, a switch.
pub(super) const HARMLESS_ENDS: &[&str] = &[
    "file", "path", "dir", "url", "uri", "stdin", "type", "name", "length", "id", "ttl", "timeout",
    "policy", "prompt", "cmd", "command", "env", "fd", "enabled", "required", "count", "limit",
    "size",
];

/// Prefixes of options that make a program ask for a secret but do not contain one.
pub(super) const SWITCHES: &[&str] = &["--no-", "--ask-", "--prompt-", "--with-", "--without-"];

/// Tokens with a distinctive format, as byte regexes. The formats are the ones that the services
/// document for secret scanners.
pub(super) const TOKENS: &[&str] = &[
    // JSON Web Tokens.
    r"eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*",
    // Tokens of Amazon, Google and DigitalOcean.
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    r"AIza[\w-]{35}",
    r"ya29\.[\w-]{20,}",
    r"GOCSPX-[\w-]{20,}",
    r"do[oprt]_v1_[a-f0-9]{64}",
    // Forges and registries: GitHub, GitLab, npm, PyPI, Docker, crates.io.
    r"gh[oprsu]_[A-Za-z0-9]{16,}",
    r"github_pat_\w{20,}",
    r"gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\w.=-]{16,}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[\w-]{32,}",
    r"dckr_(?:pat|oat)_[\w-]{20,}",
    r"cio[A-Za-z0-9]{32}",
    // Tokens of Slack, SendGrid, Mailgun, Twilio and Telegram.
    r"xox[abeoprs]-[\w-]{10,}",
    r"xapp-[\w-]{10,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"key-[0-9a-f]{32}",
    r"SK[0-9a-f]{32}",
    r"[0-9]{8,10}:AA[\w-]{33}",
    // Tokens of Stripe and Shopify.
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}",
    r"whsec_[\w+/=-]{16,}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    // Tokens of Vault, Grafana, Databricks, Hugging Face, OpenAI and Anthropic.
    r"hv[bs]\.[\w-]{20,}",
    r"s\.[A-Za-z0-9]{24}",
    r"gl(?:sa|c)_[\w+/=]{20,}",
    r"dapi[a-f0-9]{32}",
    r"hf_[A-Za-z0-9]{30,}",
    r"sk-[\w-]{20,}",
    // Keys of the encryption tool age.
    r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
];

/// The part of an option's value that is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// The whole value.
    Secret,
    /// Everything after the first occurrence of this byte.
    After(u8),
}

/// A flag of certain programs whose value is a secret, in the same argument or in the next.
pub(super) struct Flag {
    pub(super) programs: &'static [&'static str],
    pub(super) flags: &'static [&'static str],
    pub(super) value: Value,
    /// The value may be in the next argument.
    pub(super) next: bool,
    /// The value may be in the same argument.
    pub(super) same: bool,
}

const fn flag(
    programs: &'static [&'static str],
    flags: &'static [&'static str],
    value: Value,
    (next, same): (bool, bool),
) -> Flag {
    Flag {
        programs,
        flags,
        value,
        next,
        same,
    }
}

const BOTH: (bool, bool) = (true, true);
const SAME: (bool, bool) = (false, true);
const NEXT: (bool, bool) = (true, false);

/// Flags with a secret value that their names do not reveal.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    // `-p` without a value makes these programs prompt for the password.
    flag(
        &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlshow", "mysqlsh", "mysqlpump",
          "mariadb", "mariadb-dump", "mariadb-admin", "mariadb-import", "mariadb-check", "xtrabackup"],
        &["-p"], Value::Secret, SAME,
    ),
    flag(&["7z", "7za", "7zr", "rar", "unrar"], &["-p", "-hp"], Value::Secret, SAME),
    flag(&["xfreerdp", "xfreerdp3", "wlfreerdp"], &["/p:"], Value::Secret, SAME),
    flag(
        &["sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "rdesktop",
          "cqlsh", "influx"],
        &["-p"], Value::Secret, BOTH,
    ),
    flag(&["plink", "pscp", "psftp"], &["-pw"], Value::Secret, NEXT),
    // `docker login`, `helm registry login` and `az login` are recognized by the subcommand.
    flag(&["login"], &["-p"], Value::Secret, BOTH),
    flag(&["redis-cli", "valkey-cli"], &["-a"], Value::Secret, NEXT),
    flag(
        &["ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldappasswd", "ldapwhoami", "ldapcompare",
          "ldapmodrdn", "ldapexop"],
        &["-w"], Value::Secret, BOTH,
    ),
    flag(&["ldappasswd"], &["-a", "-s"], Value::Secret, BOTH),
    flag(
        &["sqlcmd", "bcp", "ipmitool", "mosquitto_pub", "mosquitto_sub", "mosquitto_rr", "zip", "unzip", "zipcloak"],
        &["-P"], Value::Secret, BOTH,
    ),
    flag(&["openssl"], &["-k", "-K"], Value::Secret, NEXT),
    flag(&["snmpget", "snmpwalk", "snmpset", "snmpbulkwalk"], &["-A", "-X", "-c"], Value::Secret, BOTH),
    flag(&["curl", "wcurl"], &["-u", "--user", "-U", "--proxy-user"], Value::After(b':'), BOTH),
    flag(&["curl", "wcurl"], &["-b", "--cookie"], Value::Secret, BOTH),
    flag(&["http", "https", "xh"], &["-a", "--auth"], Value::After(b':'), BOTH),
    flag(&["smbclient", "rpcclient", "net", "smbget", "wmic"], &["-U", "--user"], Value::After(b'%'), BOTH),
    flag(&["lftp"], &["-u"], Value::After(b','), BOTH),
];
