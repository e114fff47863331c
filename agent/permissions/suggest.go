package permissions

import (
	"path"
	"slices"
	"strings"
)

// subcommands are programs whose first argument says what they do.
var subcommands = []string{"git", "go", "npm", "pnpm", "yarn", "cargo", "make", "just", "task", "gradle", "mvn", "uv", "pip", "pip3", "poetry", "bundle", "dotnet", "composer", "rake", "mix", "docker", "kubectl", "terraform", "rustup"}

// Suggest makes the rule that allows a call, and the like of it as far as that is harmless. wide makes it about all commands of the program,
// as people mean it for the time of a session. ok is false where no rule could say which calls are meant.
func Suggest(c Call, wide bool) (r Rule, ok bool) {
	r = Rule{Tool: c.Spec.Name, Effect: Allow}
	switch c.kind {
	case commands:
		r.Pattern = c.line.suggest(wide)
	case paths:
		if len(c.paths) == 1 && c.paths[0].known && c.paths[0].given == c.paths[0].real {
			if dir, _, below := strings.Cut(c.paths[0].given, "/"); below {
				r.Pattern = escapeGlobs(dir) + "/**"
			} else {
				r.Pattern = dir
			}
		}
		if wide {
			r.Pattern = ""
		}
	case hosts:
		r.Pattern = c.host
	}
	return r, r.Pattern != "" || c.kind == plain || c.kind == paths && wide
}

// escapeGlobs replaces wildcards in a name by ?, which matches them.
func escapeGlobs(name string) string { return strings.ReplaceAll(name, "*", "?") }

func (l line) suggest(wide bool) string {
	exact := l.text
	if !l.certain || l.opaque {
		return exact // "", where it runs in another folder or with variables: no pattern says that
	}
	if exact == "" {
		exact = quoted(l.commands)
	}
	var one *simple
	for i, c := range l.commands {
		switch {
		case c.inner || c.harmless():
		case one != nil:
			return exact // several programs
		default:
			one = &l.commands[i]
		}
	}
	if one == nil || runs(base(one.words[0].text), one.words[1:]) || !bare(one.words[0].text) {
		return exact
	}
	pattern := one.words[0].text
	switch name := base(pattern); {
	case wide:
		return pattern + " *"
	case slices.Contains(subcommands, name) && len(one.words) > 1 && bare(one.words[1].text) && !strings.HasPrefix(one.words[1].text, "-"):
		return pattern + " " + one.words[1].text + " *"
	}
	return quoted([]simple{*one})
}

// bare reports whether a word needs no quotes.
func bare(w string) bool {
	return w != "" && path.Clean(w) != "." && !strings.ContainsFunc(w, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/+:@=,", r))
	})
}

// quoted writes the first of some commands as a pattern that matches it alone.
func quoted(all []simple) string {
	if len(all) == 0 {
		return ""
	}
	words := make([]string, len(all[0].words))
	for i, w := range all[0].words {
		if words[i] = w.text; !bare(w.text) && w.text != "." {
			words[i] = "'" + strings.ReplaceAll(w.text, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
