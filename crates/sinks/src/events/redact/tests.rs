use std::borrow::Cow;

use super::*;

fn shown(line: &[&str]) -> Vec<String> {
    let mut args: Vec<Vec<u8>> = line.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    redact(&mut args);
    let text = args.iter().map(|arg| String::from_utf8_lossy(arg));
    text.map(Cow::into_owned).collect()
}

/// Command lines with one secret each: `{S}`, or a token with a distinctive format.
const SECRETS: &[&[&str]] = &[
    &["app", "--password", "{S}", "x"],
    &["app", "--password={S}"],
    &["app", "-password", "{S}"],
    &["app", "--db-password={S}"],
    &["app", "--pass", "{S}"],
    &["app", "--pwd={S}"],
    &["app", "--api-key", "{S}"],
    &["app", "--apiKey={S}"],
    &["app", "--client-secret={S}"],
    &["app", "--token", "{S}"],
    &["app", "--auth-token={S}"],
    &["keytool", "-storepass", "{S}", "-list"],
    &["env", "PGPASSWORD={S}", "psql"],
    &["env", "DB_PASS={S}", "app"],
    &["env", "MYSQL_PWD={S}", "app"],
    &["env", "AWS_SECRET_ACCESS_KEY={S}/y="],
    &["docker", "run", "-e", "POSTGRES_PASSWORD={S}", "db"],
    &["java", "-Dspring.datasource.password={S}"],
    &["java", "-Djavax.net.ssl.keyStorePassword={S}"],
    &["/usr/bin/mysql", "-uroot", "-p{S}"],
    &["sudo", "mysql", "-p{S}"],
    &["sh", "-c", "mysqldump -u root -p{S} db | gzip"],
    &["sshpass", "-p", "{S}", "ssh", "h"],
    &["sshpass", "-p{S}", "ssh", "h"],
    &["curl", "-u", "me:{S}", "h"],
    &["curl", "-ume:{S}", "h"],
    &["curl", "--user=me:{S}", "h"],
    &["sh", "-c", "curl -s -u 'me:{S}' https://h"],
    &["curl", "-H", "Authorization: Bearer {S}"],
    &["curl", "-H", "X-Api-Key: {S}"],
    &["curl", "-H", "PRIVATE-TOKEN: {S}"],
    &["curl", "-b", "session={S}", "h"],
    &["curl", "-d", "user=me&password={S}&x=1", "h"],
    &["curl", "https://h/a?x=1&access_token={S}&y=2"],
    &["curl", "https://h/blob?sv=1&sig={S}"],
    &["curl", "-d", r#"{"user": "me", "password": "{S}"}"#],
    &["curl", "-d", r#"{\"password\": \"{S}\"}"#],
    &["app", "--config", "user: me, api_key: '{S}'"],
    &["git", "clone", "https://me:{S}@host:8080/a@b"],
    &["app", "redis://:{S}@host/0"],
    &["app", "postgres://me:{S}@h/db?x=1"],
    &["app", "https://{S}0123456789abcdef@o1.ingest.sentry.io/1"],
    &["app", "jdbc:postgresql://h/db?user=me&password={S}"],
    &[
        "app",
        "jdbc:sqlserver://h;user=me;password={S};encrypt=true",
    ],
    &["app", "Server=h;User Id=sa;Password={S};"],
    &[
        "app",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={S}==",
    ],
    &["psql", "host=h user=me password={S}"],
    &["redis-cli", "-a", "{S}", "ping"],
    &["mongosh", "-u", "me", "-p", "{S}"],
    &["ldapsearch", "-D", "cn=me", "-w", "{S}"],
    &["docker", "login", "-u", "me", "-p", "{S}"],
    &["mosquitto_pub", "-u", "me", "-P", "{S}"],
    &["smbclient", "//h/s", "-U", "me%{S}"],
    &["openssl", "enc", "-pass", "pass:{S}"],
    &["openssl", "rsa", "-passin", "pass:{S}"],
    &["sh", "-c", "export API_TOKEN={S}; app"],
    &["sh", "-c", "app --token {S}  && z"],
    &["sh", "-c", "echo x | app --secret='{S}'"],
    &["helm", "install", "--set", "auth.password={S}"],
    &["ansible-playbook", "-e", "db_password={S}"],
    &["plink", "-pw", "{S}", "h"],
    &["xfreerdp", "/u:me", "/p:{S}"],
    &["7z", "x", "-p{S}", "a.7z"],
];

const TOKEN_EXAMPLES: &[&str] = &[
    "ghp_0123456789abcdefghij",
    "github_pat_0123456789abcdefghij_x",
    "glpat-0123456789abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIza0123456789abcdefghijABCDEFGHIJ-____",
    "xoxb-0123456789-abcdef",
    "sk_live_0123456789abcdef",
    "hvs.0123456789abcdefghijklmn",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc_def",
    "npm_0123456789abcdefghijABCDEFGHIJ012345",
    "hf_0123456789abcdefghijABCDEFGHIJ",
    "SG.0123456789abcdefghij.0123456789abcdefghij",
    "dckr_pat_0123456789abcdefghij",
    "sk-ant-api03-0123456789abcdefghij",
    "shpat_0123456789abcdef0123456789abcdef",
    "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl",
];

#[test]
fn common_forms_of_secrets_are_replaced() {
    let mut kept = Vec::new();
    for line in SECRETS {
        let with = |secret: &str| {
            line.iter()
                .map(|it| it.replace("{S}", secret))
                .collect::<Vec<_>>()
        };
        let original = with("hunter2");
        let original: Vec<&str> = original.iter().map(String::as_str).collect();
        let shown = shown(&original);
        if shown.iter().any(|it| it.contains("hunter2")) || !shown.concat().contains("<redacted>") {
            kept.push(shown);
        }
    }
    assert!(kept.is_empty(), "{kept:#?}");
    for token in TOKEN_EXAMPLES {
        for line in [
            ["app", token].map(str::to_owned),
            ["app".to_owned(), format!("--x={token}")],
            ["sh".to_owned(), format!("-c 'app \"{token}\"; y'")],
        ] {
            let words: Vec<&str> = line.iter().map(String::as_str).collect();
            let shown = shown(&words).concat();
            let secret = token.lines().nth(1).unwrap_or(token);
            assert!(
                !shown.contains(secret) && shown.contains("<redacted>"),
                "{line:?}: {shown}"
            );
        }
    }
}

#[test]
fn secrets_may_contain_any_characters_but_blanks() {
    let lines: &[&[&str]] = &[
        &["app", "--db-password=Tr0ub&4dor,x;y|z)"],
        &["env", "PGPASSWORD=ab,c'd\"e"],
        &["app", "--password=$3cret"],
        &["vault", "write", "auth", "secret_id=0f1e-2d"],
        &["app", "--secret-id", "0f1e-2d"],
        &["env", "GITHUB_TOKEN_RO=0f1e"],
        &["env", "TOKEN1=0f1e"],
        &["env", "API_KEY_PROD=0f1e"],
        &["app", "--token-value=0f1e"],
    ];
    for line in lines {
        let shown = shown(line);
        let last = shown.last().expect("arguments");
        assert!(last.ends_with("<redacted>"), "{shown:?}");
    }
}

#[test]
fn text_around_a_secret_stays() {
    let r = "<redacted>";
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["app", "--password", "hunter2", "x"],
            &["app", "--password", r, "x"],
        ),
        (
            &["/usr/bin/mysql", "-uroot", "-phunter2"],
            &["/usr/bin/mysql", "-uroot", "-p<redacted>"],
        ),
        (
            &["curl", "-u", "me:x", "h"],
            &["curl", "-u", "me:<redacted>", "h"],
        ),
        (
            &["curl", "-H", "Authorization: Bearer abc def"],
            &["curl", "-H", "Authorization: <redacted>"],
        ),
        (
            &["git", "clone", "https://me:x@host:8080/a@b"],
            &["git", "clone", "https://me:<redacted>@host:8080/a@b"],
        ),
        (
            &["sh", "-c", "mysql --password=x y; app --token abc  && z"],
            &[
                "sh",
                "-c",
                "mysql --password=<redacted> y; app --token <redacted>  && z",
            ],
        ),
        (
            &["curl", "-d", r#"{"a": 1, "password": "x y", "b": 2}"#],
            &[
                "curl",
                "-d",
                r#"{"a": 1, "password": "<redacted>", "b": 2}"#,
            ],
        ),
        (
            &["app", "jdbc:x://h;user=me;password=x;encrypt=true"],
            &["app", "jdbc:x://h;user=me;password=<redacted>;encrypt=true"],
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(shown(line), *expected, "{line:?}");
    }
}

#[test]
fn arguments_without_secrets_stay() {
    let lines: &[&[&str]] = &[
        &["app", "--password-file", "/run/secrets/db"],
        &["app", "--password-stdin", "user"],
        &["app", "--no-password", "db"],
        &["app", "--max-tokens", "100"],
        &["app", "--token-ttl=5m", "--auth-type", "basic"],
        &["mkdir", "-p", "a/b"],
        &["docker", "run", "-p", "80:80", "web"],
        &["ldapsearch", "-s", "base", "-x"],
        &["ssh", "-p2222", "host"],
        &["tar", "--bypass=x", "compass=1"],
        &["curl", "https://host/x:y@z"],
        &["curl", "-o", "token.json", "https://host/secrets/list"],
        &["app", "--token", "--verbose"],
        &["app", "eyJ"],
        &["cat", "/etc/passwd"],
        &["sh", "-c", "echo $PASSWORD; X=${TOKEN:-none}"],
        &["app", "--monkey=1", "turnkey: yes"],
        &["kubectl", "get", "secret", "db"],
        &["vim", "password.txt"],
        &[],
    ];
    for line in lines {
        assert_eq!(shown(line), *line);
    }
    // Must not panic on invalid UTF-8, or when the value of the last option is missing.
    redact(&mut [
        b"x".to_vec(),
        b"\xff--password=\xff".to_vec(),
        b"--password".to_vec(),
    ]);
}
