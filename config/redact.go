package config

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
)

// Hidden stands for a secret in what Redacted prints.
const Hidden = "[hidden]"

// Redacted returns the configuration as JSON for people to read: complete, without secrets.
func (c *Config) Redacted() string {
	copied := reflect.New(reflect.TypeFor[Config]()).Elem()
	copied.Set(reflect.ValueOf(*c))
	redact(copied, "")
	c = copied.Addr().Interface().(*Config)
	if tree := c.Sandboxing.tree; tree.IsValid() {
		hidden := reflect.New(tree.Type()).Elem()
		hidden.Set(tree)
		redact(hidden, "")
		c.Sandboxing.tree = hidden
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(c); err != nil {
		return "{}" // these types always encode
	}
	return b.String()
}

// LogValue keeps secrets out of logs.
func (c *Config) LogValue() slog.Value { return slog.StringValue(c.Redacted()) }

// String keeps secrets out of what is printed.
func (c *Config) String() string { return c.Redacted() }

// redact replaces the secrets in v, which nobody else holds; slices and maps are copied first.
func redact(v reflect.Value, how string) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fields(v.Type()) {
			redact(v.Field(f.index), f.secret)
		}
	case reflect.Slice:
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(copied, v)
		for i := range copied.Len() {
			redact(copied.Index(i), how)
		}
		v.Set(copied)
	case reflect.Map:
		copied := reflect.MakeMap(v.Type())
		for _, k := range v.MapKeys() {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(k))
			redact(item, how)
			copied.SetMapIndex(k, item)
		}
		v.Set(copied)
	case reflect.String:
		switch {
		case how == "" || v.Len() == 0:
		case how == "url":
			v.SetString(redactURL(v.String()))
		default:
			v.SetString(Hidden)
		}
	}
}

// redactURL hides the password of a URL and every parameter that may hold one.
func redactURL(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil {
		return Hidden
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), "hidden")
	}
	q := u.Query()
	for k := range q {
		if strings.Contains(strings.ToLower(k), "password") {
			q.Set(k, "hidden")
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}
