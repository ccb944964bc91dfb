//! The subset of JSON Schema that the API's description uses.

use serde_json::Value;

/// Returns each position at which the value violates the schema. References are looked up in
/// `root`.
pub(crate) fn problems(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(place) = schema["$ref"].as_str() {
        let pointer = place.trim_start_matches('#');
        let schema = root.pointer(pointer);
        let schema = schema.unwrap_or_else(|| panic!("{place}: no such schema"));
        return problems(root, schema, value, at);
    }
    let mut found = Vec::new();
    if !has_type(&schema["type"], value) {
        found.push(format!("{at}: {} expected, {value}", schema["type"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{at}: {value} is none of {allowed:?}"));
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(problems(
            root,
            &schema["items"],
            item,
            &format!("{at}[{place}]"),
        ));
    }
    let Some(object) = value.as_object() else {
        return found;
    };
    for key in schema["required"].as_array().into_iter().flatten() {
        let key = key.as_str().expect("a key");
        if !object.contains_key(key) {
            found.push(format!("{at}: {key} is missing"));
        }
    }
    for (key, item) in object {
        let place = format!("{at}.{key}");
        match (&schema["properties"][key], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => found.push(format!("{place}: not described")),
            (Value::Null, any) => found.extend(problems(root, any, item, &place)),
            (known, _) => found.extend(problems(root, known, item, &place)),
        }
    }
    found
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other}: no such type"),
    };
    match wanted {
        Value::Null => true,
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        name => is(name.as_str().expect("a type")),
    }
}
