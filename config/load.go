package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Load reads the configuration. path names the file; "" means what PARAWORK_CONFIG names, else config.json in the working folder
// when there is one, else only the defaults. env returns environment variables, "" for those not set (os.Getenv).
//
// In order: defaults, the file, PARAWORK_* twins, ${ENV} in texts, secrets from files. Then everything is checked; the error
// names each wrong key and what to do. Relative paths count from the file's folder, those of defaults and twins from the
// working folder.
//
// Agents are those Parawork knows by itself: the program of each by its name, "" for one that config.json need not name. All others are of
// one's own. Kinds are the kinds of places that have settings.
func Load(path string, env func(string) string, agents map[string]string, kinds []Kind) (*Config, error) {
	file, text, err := read(path, env)
	if err != nil {
		return nil, err
	}
	var n node
	if file != "" {
		if n, err = parseTree(text); err != nil {
			return nil, fault.New(fault.Invalid, "invalid_config", "%s is not JSON: %v", file, err)
		}
	}
	all := withRegions(kinds, n)
	c := Default(agents, all)
	for _, k := range all[len(kinds):] {
		c.Sandboxing.regions = append(c.Sandboxing.regions, k.Name)
	}
	c.File = file
	d := &decoder{agents: agents, given: map[string]bool{}, fromFile: map[string]bool{}, kinds: all, tree: c.Sandboxing.tree}
	if file != "" {
		d.decode("", n, reflect.ValueOf(c).Elem())
	}
	d.twins("", reflect.ValueOf(c).Elem(), env)
	d.twins(placesPath, d.tree, env)
	d.expand("", reflect.ValueOf(c).Elem(), env)
	d.expand(placesPath, d.tree, env)
	d.placesEnv(env)
	if len(d.problems) == 0 {
		d.paths(c, env)
		d.files("", reflect.ValueOf(c).Elem(), c.File, env)
		d.files(placesPath, d.tree, c.File, env)
	}
	if len(d.problems) == 0 {
		c.Sandboxing.places = d.placeValues(c.File, env)
		d.check(c)
	}
	if len(d.problems) > 0 {
		return nil, d.fault(file)
	}
	c.given = d.given
	return c, nil
}

// Given reports whether the file or a PARAWORK_* variable gives a key, such as "sandboxing.e2b.template".
func (c *Config) Given(path string) bool { return c.given[path] }

func (d *decoder) fault(file string) error {
	where := "the configuration"
	if file != "" {
		where = file
	}
	if len(d.problems) == 1 {
		return fault.New(fault.Invalid, "invalid_config", "%s: %s", where, d.problems[0])
	}
	return fault.New(fault.Invalid, "invalid_config", "%s:\n  %s", where, strings.Join(d.problems, "\n  "))
}

const maxFile = 1 << 20

// read returns the absolute path and the text of the file; both empty when there is none and none was asked for.
func read(path string, env func(string) string) (string, []byte, error) {
	asked := true
	if path == "" {
		path = env("PARAWORK_CONFIG")
	}
	if path == "" {
		path, asked = "config.json", false
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, fmt.Errorf("locating the configuration: %w", err)
	}
	text, err := readSmall(abs)
	if errors.Is(err, fs.ErrNotExist) && !asked {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fault.Wrap(err, fault.Invalid, "invalid_config", "The configuration %s cannot be read", abs)
	}
	return abs, text, nil
}

func readSmall(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() && st.Mode()&fs.ModeNamedPipe == 0 {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("it is larger than 1 MiB")
	}
	return text, err
}

// twin returns the environment variable that overrides a key: PARAWORK_SERVER_PUBLIC_URL for server.publicUrl.
func twin(path string) string {
	var b strings.Builder
	b.WriteString("PARAWORK_")
	for _, r := range path {
		switch {
		case r == '.':
			b.WriteByte('_')
		case r >= 'A' && r <= 'Z':
			b.WriteByte('_')
			b.WriteRune(r)
		default:
			b.WriteString(strings.ToUpper(string(r)))
		}
	}
	return b.String()
}

// twins applies the PARAWORK_* variables. Lists are separated by commas. Agents have none.
func (d *decoder) twins(path string, v reflect.Value, env func(string) string) {
	for _, f := range fields(v.Type()) {
		full, dst := join(path, f.key), v.Field(f.index)
		if dst.Kind() == reflect.Struct {
			d.twins(full, dst, env)
			continue
		}
		if dst.Kind() == reflect.Map {
			continue
		}
		name := twin(full)
		text := env(name)
		if text == "" {
			continue
		}
		d.twin(full, name, text, dst)
	}
}

func (d *decoder) twin(path, name, text string, dst reflect.Value) {
	before := len(d.problems)
	switch dst.Kind() {
	case reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		d.twin(path, name, text, dst.Elem())
	case reflect.String:
		dst.SetString(strings.ReplaceAll(text, "${", "$${")) // the environment is not expanded twice
	case reflect.Bool:
		switch strings.ToLower(text) {
		case "true", "1", "yes", "on":
			dst.SetBool(true)
		case "false", "0", "no", "off":
			dst.SetBool(false)
		default:
			d.problem(name, "must be true or false, not %q", text)
		}
	case reflect.Slice:
		var list []string
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, strings.ReplaceAll(item, "${", "$${"))
			}
		}
		dst.Set(reflect.ValueOf(list))
	default:
		d.number(name, text, dst)
	}
	if len(d.problems) == before {
		d.given[path] = true
		delete(d.fromFile, path)
	}
}

// expand replaces ${NAME} in every text; $${ stands for ${ itself.
func (d *decoder) expand(path string, v reflect.Value, env func(string) string) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fields(v.Type()) {
			d.expand(join(path, f.key), v.Field(f.index), env)
		}
	case reflect.String:
		v.SetString(d.expandText(path, v.String(), env))
	case reflect.Slice:
		for i := range v.Len() {
			d.expand(fmt.Sprintf("%s[%d]", path, i), v.Index(i), env)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(k))
			d.expand(join(path, k.String()), item, env)
			v.SetMapIndex(k, item)
		}
	}
}

func (d *decoder) expandText(path, s string, env func(string) string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			break
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		name, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed || !envName(name) {
			d.problem(path, `"${" must be followed by the name of an environment variable and "}"; write "$${" for a literal "${"`)
			return ""
		}
		value := env(name)
		if value == "" && !d.envMayMiss(path) {
			d.problem(path, "the environment variable %s is not set. Set it, or put the value itself here.", name)
		}
		b.WriteString(value)
		s = rest
	}
	return b.String() + s
}

func envName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// files reads the secrets that are given as <key>File.
func (d *decoder) files(path string, v reflect.Value, config string, env func(string) string) {
	byKey := map[string]reflect.Value{}
	for _, f := range fields(v.Type()) {
		full, dst := join(path, f.key), v.Field(f.index)
		byKey[f.key] = dst
		switch {
		case dst.Kind() == reflect.Struct:
			d.files(full, dst, config, env)
		case dst.Kind() == reflect.Map && dst.Type().Elem().Kind() == reflect.Struct:
			for _, k := range dst.MapKeys() {
				item := reflect.New(dst.Type().Elem()).Elem()
				item.Set(dst.MapIndex(k))
				d.files(join(full, k.String()), item, config, env)
				dst.SetMapIndex(k, item)
			}
		case f.file != "" && dst.String() != "":
			name := d.absolute(full, dst.String(), config, env)
			dst.SetString(name)
			d.secret(full, join(path, f.file), name, byKey[f.file])
		}
	}
}

func (d *decoder) secret(path, target, name string, dst reflect.Value) {
	if d.given[target] && dst.Len() > 0 {
		d.problem(path, "%s is set too. Set only one of them.", target)
		return
	}
	text, err := readSmall(name)
	if err != nil {
		d.problem(path, "%s cannot be read: %v", name, err)
		return
	}
	lines := strings.Fields(string(text))
	if dst.Kind() == reflect.Slice {
		dst.Set(reflect.ValueOf(lines))
		return
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" || strings.ContainsAny(value, "\r\n\x00") {
		d.problem(path, "%s must contain the secret on a single line", name)
		return
	}
	dst.SetString(value)
}

// absolute makes a path absolute; see Load.
func (d *decoder) absolute(key, path, config string, env func(string) string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		home := env("HOME")
		if home == "" {
			d.problem(key, "~ needs the environment variable HOME")
			return path
		}
		path = filepath.Join(home, strings.TrimPrefix(path, "~"))
	}
	if !filepath.IsAbs(path) && d.fromFile[key] {
		path = filepath.Join(filepath.Dir(config), path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		d.problem(key, "%v", err)
	}
	return abs
}

func (d *decoder) paths(c *Config, env func(string) string) {
	if c.DataDir == "" {
		d.problem("dataDir", "must name a folder")
		return
	}
	c.DataDir = d.absolute("dataDir", c.DataDir, c.File, env)
	if c.UI.Dir != "" {
		c.UI.Dir = d.absolute("ui.dir", c.UI.Dir, c.File, env)
	}
	for i, root := range c.Projects.AllowedRoots {
		if root == "" {
			d.problem("projects.allowedRoots", "must not hold an empty path")
			continue
		}
		c.Projects.AllowedRoots[i] = d.absolute("projects.allowedRoots", root, c.File, env)
	}
}
