package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/schema"
)

// Kind is a kind of place to run, whose settings are the object sandboxing.<name>.
type Kind struct {
	Name     string
	Settings schema.Schema
	Region   schema.Schema // of each region, whose settings are the object sandboxing.<name>@<region>; nil = it has none
}

var regionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// withRegions are the kinds with the regions that the file describes.
func withRegions(kinds []Kind, file node) []Kind {
	top, _ := file.value.(object)
	places, _ := top.values[placesPath].value.(object)
	out := slices.Clone(kinds)
	for _, key := range places.keys {
		place, region, ok := strings.Cut(key, "@")
		i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == place && k.Region != nil })
		if ok && i >= 0 && regionName.MatchString(region) && region != "main" {
			out = append(out, Kind{Name: key, Settings: kinds[i].Region})
		}
	}
	return out
}

// Regions are the names of the regions of a kind that config.json describes, in its order, such as e2b@eu.
func (s Sandboxing) Regions(kind string) []string {
	var out []string
	for _, name := range s.regions {
		if strings.HasPrefix(name, kind+"@") {
			out = append(out, name)
		}
	}
	return out
}

const placesPath = "sandboxing"

// Of are the settings of a kind of place.
func (s Sandboxing) Of(kind string) schema.Values { return s.places[kind] }

// MarshalJSON writes the settings of places beside those that are of no kind.
func (s Sandboxing) MarshalJSON() ([]byte, error) {
	type plain Sandboxing
	general, err := encode(plain(s))
	if err != nil || !s.tree.IsValid() {
		return general, err
	}
	places, err := encode(s.tree.Interface())
	if err != nil || len(places) <= len("{}") {
		return general, err
	}
	return slices.Concat(general[:len(general)-1], []byte(","), places[1:]), nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// newTree makes the object of all kinds with their defaults: a struct, as the rest of config.json is, so that it is read, expanded and hidden by
// the same code.
func newTree(kinds []Kind) reflect.Value {
	var fs []reflect.StructField
	for i, k := range kinds {
		fs = append(fs, reflect.StructField{Name: fmt.Sprintf("K%d", i), Type: typeOf(k.Settings, ""), Tag: tag(k.Name, "", "")})
	}
	tree := reflect.New(reflect.StructOf(fs)).Elem()
	for i, k := range kinds {
		for _, f := range k.Settings {
			if dst := at(tree.Field(i), f.Key); f.Default != nil || f.Type == schema.Map || f.Type == schema.List || f.Env != "" {
				setDefault(dst, f)
			}
		}
	}
	return tree
}

func tag(key, secret, file string) reflect.StructTag {
	return reflect.StructTag(fmt.Sprintf("json:%q secret:%q file:%q", key, secret, file))
}

// typeOf is the struct of the fields of a schema whose keys begin with head.
func typeOf(s schema.Schema, head string) reflect.Type {
	var fs []reflect.StructField
	add := func(key string, t reflect.Type, secret, file string) {
		fs = append(fs, reflect.StructField{Name: fmt.Sprintf("F%d", len(fs)), Type: t, Tag: tag(key, secret, file)})
	}
	var objects []string
	for _, f := range s {
		rest, ok := strings.CutPrefix(f.Key, head)
		if !ok {
			continue
		}
		if object, _, deeper := strings.Cut(rest, "."); deeper {
			if !slices.Contains(objects, object) {
				objects = append(objects, object)
				add(object, typeOf(s, head+object+"."), "", "")
			}
			continue
		}
		switch f.Type {
		case schema.Number:
			add(rest, reflect.TypeFor[int64](), "", "")
		case schema.Boolean:
			if f.Optional {
				add(rest, reflect.TypeFor[*bool](), "", "")
			} else {
				add(rest, reflect.TypeFor[bool](), "", "")
			}
		case schema.Cores:
			add(rest, reflect.TypeFor[Cores](), "", "")
		case schema.List:
			add(rest, reflect.TypeFor[[]string](), "", "")
		case schema.Map:
			add(rest, reflect.TypeFor[map[string]string](), "values", "")
		case schema.Secret:
			add(rest, reflect.TypeFor[string](), "all", "")
			add(rest+"File", reflect.TypeFor[string](), "", rest)
		default:
			secret := ""
			if f.URL {
				secret = "url"
			}
			add(rest, reflect.TypeFor[string](), secret, "")
		}
	}
	return reflect.StructOf(fs)
}

// at is the field of a kind's struct that a key leads to.
func at(v reflect.Value, key string) reflect.Value {
	for name := range strings.SplitSeq(key, ".") {
		all := fields(v.Type())
		v = v.Field(all[slices.IndexFunc(all, func(f field) bool { return f.key == name })].index)
	}
	return v
}

func setDefault(dst reflect.Value, f schema.Field) {
	if f.Type == schema.Secret && f.Env != "" {
		dst.SetString("${" + f.Env + "}") // config.json may say another variable, or the secret itself
		return
	}
	switch d := f.Default.(type) {
	case int:
		dst.SetInt(int64(d))
	case bool:
		if f.Optional {
			dst.Set(reflect.ValueOf(&d))
			return
		}
		dst.SetBool(d)
	case string:
		dst.SetString(d)
	case []string:
		dst.Set(reflect.ValueOf(slices.Clone(d)))
	case nil:
		switch f.Type {
		case schema.List:
			dst.Set(reflect.ValueOf([]string{}))
		case schema.Map:
			dst.Set(reflect.ValueOf(map[string]string{}))
		}
	}
}

// placeKeys are the paths of the keys of all kinds.
func placeKeys(kinds []Kind) []string {
	return keysOf(placesPath, newTree(kinds).Type())
}

// placesEnv fills what is not said of places from the variables that other programs know as well.
func (d *decoder) placesEnv(env func(string) string) {
	for i, k := range d.kinds {
		for _, f := range k.Settings {
			path := join(join(placesPath, k.Name), f.Key)
			text := env(f.Env)
			if f.Env == "" || text == "" || f.Type == schema.Secret { // a secret's default names its variable
				continue
			}
			dst := at(d.tree.Field(i), f.Key)
			switch dst.Kind() {
			case reflect.String:
				if dst.String() == "" {
					dst.SetString(text)
					d.given[path] = true
				}
			case reflect.Bool:
				if !d.given[path] {
					dst.SetBool(strings.EqualFold(text, "true"))
				}
			}
		}
	}
}

// envMayMiss reports whether the variable that the text of a key names may not be there: the text is empty then.
func (d *decoder) envMayMiss(path string) bool {
	rest, _ := strings.CutPrefix(path, placesPath+".")
	name, key, _ := strings.Cut(rest, ".")
	for _, k := range d.kinds {
		if f, ok := k.Settings.Find(key); ok && k.Name == name {
			return f.Type == schema.Secret && f.Env != ""
		}
	}
	return false
}

// placeValues are the settings of places as their kinds want them. They are checked.
func (d *decoder) placeValues(config string, env func(string) string) map[string]schema.Values {
	out := make(map[string]schema.Values, len(d.kinds))
	for i, k := range d.kinds {
		v := k.Settings.Defaults()
		for _, f := range k.Settings {
			path := join(join(placesPath, k.Name), f.Key)
			value := placeValue(at(d.tree.Field(i), f.Key))
			if text, ok := value.(string); ok && f.Type == schema.Path && text != "" {
				value = d.absolute(path, text, config, env)
			}
			v = v.With(f.Key, value)
		}
		for _, p := range v.Problems() {
			d.problem(join(join(placesPath, k.Name), p.Field.Key), "%s", p.Words)
		}
		out[k.Name] = v
	}
	return out
}

func placeValue(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return v.Elem().Bool()
	case reflect.Float64:
		return v.Float()
	}
	return v.Interface()
}

// providers are what sandboxing.defaultProvider may be.
func providers(kinds []Kind) []string {
	out := []string{"auto"}
	for _, k := range kinds {
		out = append(out, k.Name)
	}
	return out
}
