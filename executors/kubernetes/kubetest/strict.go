package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// decodeStrictly reads an object as a kind, as the real one does with fieldValidation=Strict.
func decodeStrictly(o object, kind, apiVersion string, v any) error {
	k, _ := o["kind"].(string)
	a, _ := o["apiVersion"].(string)
	if k != kind || a != apiVersion {
		switch {
		case a == "":
			return refuse(http.StatusBadRequest, "Object 'apiVersion' is missing in '%s'", brief(o))
		case a == apiVersion && k != "":
			return refuse(http.StatusBadRequest, "%s in version %q cannot be handled as a %s: converting (%s.%s) to (core.%s): unknown conversion", k, version(a), kind, version(a), k, kind)
		}
	}
	if k != "" && k != kind || a != apiVersion { // without a kind it is what the path says
		return refuse(http.StatusBadRequest, "%s in version %q cannot be handled as a %s: no kind %q is registered for version %q", k, version(a), kind, k, a)
	}
	bad := func(why string) error {
		return refuse(http.StatusBadRequest, "%s in version %q cannot be handled as a %s: %s", kind, version(apiVersion), kind, why)
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return bad(err.Error())
	}
	if all := unknown(reflect.TypeOf(v), o, ""); len(all) > 0 {
		slices.Sort(all)
		return bad("strict decoding error: " + strings.Join(all, ", "))
	}
	return nil
}

func version(apiVersion string) string {
	return apiVersion[strings.LastIndexByte(apiVersion, '/')+1:]
}

func brief(o object) string {
	b, _ := json.Marshal(o)
	return string(b[:min(len(b), 200)])
}

var rawType = reflect.TypeFor[json.RawMessage]()

// unknown are the fields of a value that its type has not.
func unknown(t reflect.Type, v any, path string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var out []string
	switch v := v.(type) {
	case []any:
		if t.Kind() == reflect.Slice && t != rawType {
			for i, one := range v {
				out = append(out, unknown(t.Elem(), one, fmt.Sprintf("%s[%d]", path, i))...)
			}
		}
	case object:
		switch t.Kind() {
		case reflect.Map:
			for k, one := range v {
				out = append(out, unknown(t.Elem(), one, path+"."+k)...)
			}
		case reflect.Struct:
			fields := map[string]reflect.Type{}
			namedFields(t, fields)
			for k, one := range v {
				at := strings.TrimPrefix(path+"."+k, ".")
				if f, ok := fields[k]; ok {
					out = append(out, unknown(f, one, at)...)
				} else {
					out = append(out, fmt.Sprintf("unknown field %q", at))
				}
			}
		}
	}
	return out
}

// namedFields are the fields of a type as JSON names them.
func namedFields(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		if f.Anonymous {
			namedFields(f.Type, into)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		into[name] = f.Type
	}
}
