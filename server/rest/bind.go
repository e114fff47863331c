package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
)

// Binder reads JSON bodies for the generated code. It takes JSON only: forms and plain text are what foreign pages can send
// without asking.
type Binder struct{}

// Bind reads the whole body into v. An empty body is io.EOF where a body is optional.
func (Binder) Bind(v any, c echo.Context) error {
	r := c.Request()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return ErrTooLarge(err)
		}
		if fault.KindOf(err) != fault.Internal {
			return err
		}
		return fault.Wrap(err, fault.Invalid, "body_incomplete", "The request's body ended early.")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		switch v.(type) { // optional bodies
		case *api.StopSessionJSONRequestBody, *api.InterruptSessionJSONRequestBody, *api.KeepTokens, *api.OpenPortJSONRequestBody:
			return io.EOF
		}
		return fault.New(fault.Invalid, "body_missing", "This call needs a JSON body.")
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" && !strings.HasSuffix(t, "+json") {
		return fault.New(fault.Invalid, "not_json", "Send the body as JSON, with Content-Type: application/json.")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(v); err != nil {
		return badJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "invalid_json", "The body has data after its JSON value.")
	}
	if _, typed := v.(*api.SendInputJSONRequestBody); !typed && hasNUL(reflect.ValueOf(v)) {
		return fault.New(fault.Invalid, "invalid_text", "A string in the body contains a NUL character (\\u0000), which is not allowed.")
	}
	return nil
}

func badJSON(err error) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		return fault.Wrap(err, fault.Invalid, "invalid_json", "The field %q must be %s, not %s.", t.Field, jsonName(t.Type), t.Value).With("field", t.Field)
	}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fault.Wrap(err, fault.Invalid, "invalid_json", "The body is not JSON (at byte %d).", s.Offset)
	}
	return fault.Wrap(err, fault.Invalid, "invalid_json", "The JSON body does not match what this call expects.")
}

// jsonName says a Go type in the words of JSON.
func jsonName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a number"
}

// hasNUL reports whether a text anywhere in v holds a NUL: PostgreSQL stores none, and no argument or path can have one.
func hasNUL(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return strings.IndexByte(v.String(), 0) >= 0
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && hasNUL(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			if hasNUL(field) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if hasNUL(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if hasNUL(it.Key()) || hasNUL(it.Value()) {
				return true
			}
		}
	}
	return false
}
