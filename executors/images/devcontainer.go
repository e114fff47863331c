package images

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// devcontainer holds the parts of a devcontainer.json that an image is made from.
type devcontainer struct {
	Image string `json:"image"`
	Build struct {
		Dockerfile string            `json:"dockerfile"`
		Context    string            `json:"context"`
		Target     string            `json:"target"`
		Args       map[string]string `json:"args"`
	} `json:"build"`
	DockerFile    string                     `json:"dockerFile"` // older files use this name
	Context       string                     `json:"context"`
	DockerCompose json.RawMessage            `json:"dockerComposeFile"`
	Features      map[string]json.RawMessage `json:"features"`
}

// plan says how to build an image.
type plan struct {
	dockerfile string // in the repository; "" when text replaces it
	text       string
	context    string // folder in the repository, "" for the whole repository
	target     string
	args       map[string]string
	notes      []string // what is left out
	parts      []string // sets of the recipe that are installed at its end
}

// parseDevcontainer converts the devcontainer.json at file to a plan.
func parseDevcontainer(file string, raw []byte) (plan, error) {
	wrong := func(format string, args ...any) (plan, error) {
		return plan{}, fault.New(fault.Invalid, "invalid_devcontainer", file+": "+format, args...)
	}
	var d devcontainer
	if err := json.Unmarshal(plainJSON(raw), &d); err != nil {
		return wrong("it cannot be read as JSON: %v.", err)
	}
	if len(d.DockerCompose) > 0 {
		return wrong("dockerComposeFile is not supported: Parawork runs one container for each workspace. Name an image or a Dockerfile instead.")
	}
	var r plan
	if names := slices.Sorted(maps.Keys(d.Features)); len(names) > 0 {
		r.notes = append(r.notes, "Features are not supported and are left out: "+clip(strings.Join(names, ", "), 500)+". Install what they bring in a Dockerfile.")
	}
	docker, context := d.Build.Dockerfile, d.Build.Context
	if docker == "" {
		docker, context = d.DockerFile, d.Context
	}
	for _, v := range append([]string{d.Image, docker, context, d.Build.Target}, slices.Collect(maps.Values(d.Build.Args))...) {
		if strings.Contains(v, "${") {
			return wrong("it uses the variable %q, which has no value on a server. Write the value itself.", clip(v, 200))
		}
	}
	switch {
	case docker != "":
		dir := path.Dir(file)
		context = cmp.Or(context, ".")
		var ok bool
		if r.dockerfile, ok = inRepository(dir, docker); !ok || r.dockerfile == "" {
			return wrong("the Dockerfile %q is not in the repository.", clip(docker, 200))
		}
		if r.context, ok = inRepository(dir, context); !ok {
			return wrong("the context %q is not in the repository.", clip(context, 200))
		}
		r.target, r.args = d.Build.Target, d.Build.Args
	case d.Image != "":
		if !imageName.MatchString(d.Image) {
			return wrong("%q is no valid image name.", clip(d.Image, 200))
		}
		r.text = "FROM " + d.Image + "\n"
	default:
		return wrong("it names neither image nor build.dockerfile.")
	}
	return r, nil
}

// inRepository joins a path to a folder of the repository; false when it leads out of it. "" is the repository itself.
func inRepository(dir, name string) (string, bool) {
	if path.IsAbs(name) || strings.ContainsAny(name, "\x00\n\r\\") {
		return "", false
	}
	p := path.Join(dir, name)
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", false
	}
	if p == "." {
		p = ""
	}
	return p, true
}

// plainJSON removes comments and trailing commas from JSON, which devcontainer.json may have.
func plainJSON(b []byte) []byte {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			j := i + 1
			for j < len(b) && b[j] != '"' {
				if b[j] == '\\' {
					j++
				}
				j++
			}
			j = min(j, len(b)-1)
			out = append(out, b[i:j+1]...)
			i = j
		case c == '/' && i+1 < len(b) && b[i+1] == '/':
			for i < len(b) && b[i] != '\n' {
				i++
			}
			i--
		case c == '/' && i+1 < len(b) && b[i+1] == '*':
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			i += end + 3
		case c == '}' || c == ']':
			trimmed := bytes.TrimRight(out, " \t\r\n")
			if n := len(trimmed); n > 0 && trimmed[n-1] == ',' {
				out = trimmed[:n-1]
			}
			out = append(out, c)
		default:
			out = append(out, c)
		}
	}
	return out
}
