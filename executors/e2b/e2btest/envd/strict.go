package envd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Strict decodes exactly one JSON value: fields it does not know are refused, and so are those whose case differs, which encoding/json would
// take and the real service would not.
func Strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one value")
	}
	return exact(b, reflect.TypeOf(v))
}

func exact(b []byte, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]() || t == reflect.TypeFor[[]byte]() || bytes.Equal(bytes.TrimSpace(b), []byte("null")):
		return nil
	case t.Kind() == reflect.Slice:
		var all []json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil {
			return err
		}
		for _, one := range all {
			if err := exact(one, t.Elem()); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Struct:
		var all map[string]json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil {
			return err
		}
		fields := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				fields[name] = f.Type
			}
		}
		for name, one := range all {
			f, ok := fields[name]
			if !ok {
				return fmt.Errorf("json: unknown field %q", name)
			}
			if err := exact(one, f); err != nil {
				return err
			}
		}
	}
	return nil
}
