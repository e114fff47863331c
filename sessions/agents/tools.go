package agents

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// InsideBin is a folder in sandboxes that use programs of this server: it holds standalone programs, by their usual names.
const InsideBin = "/opt/parawork/bin"

// insidePath is the rest of PATH in such a sandbox, after the agents' folders.
const insidePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Shown is a file or folder of this server that must be mounted read-only into a sandbox so that agents' programs run in it.
type Shown struct{ Source, Target string }

// shownAlways are mounted into every sandbox that uses programs of this server.
var shownAlways = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// Shown returns what must be mounted, on top of the system's own folders, into a sandbox that uses programs of this server: the
// packages and files of every agent that is enabled and installed, and the interpreters they name. It never returns a whole home,
// nor anything that contains the data folder.
func (r *Registry) Shown() []Shown {
	var out []Shown
	for _, name := range r.order {
		if _, shown, ok := r.inside(name); ok {
			out = append(out, shown...)
		}
	}
	slices.SortFunc(out, func(a, b Shown) int { return strings.Compare(a.Target, b.Target) })
	out = slices.Compact(out)
	// What is in a mounted folder is mounted with it.
	return slices.DeleteFunc(slices.Clone(out), func(s Shown) bool {
		return slices.ContainsFunc(out, func(o Shown) bool {
			return o != s && o.Source == o.Target && s.Source == s.Target && within(s.Source, o.Source)
		})
	})
}

// pathInside sets PATH in a sandbox that uses programs of this server; one with its own programs has its own.
func (r *Registry) pathInside(env map[string]string, in *Inside) {
	if in != nil && in.Host {
		env["PATH"] = strings.Join(append(r.binsInside(), in.Home+"/.local/bin", insidePath), ":")
	}
}

// binsInside are the folders of InsideBin and of packages in which programs are found by name.
func (r *Registry) binsInside() []string {
	bins := []string{InsideBin}
	for _, s := range r.Shown() {
		for _, dir := range []string{filepath.Join(s.Target, ".bin"), filepath.Join(s.Target, "bin")} {
			if st, err := os.Stat(filepath.Join(s.Source, filepath.Base(dir))); err == nil && st.IsDir() {
				bins = append(bins, dir)
			}
		}
	}
	return bins
}

// inside returns where the agent's program is in a sandbox that uses programs of this server, and what must be mounted for it.
func (r *Registry) inside(name string) (program string, shown []Shown, ok bool) {
	if name == Command || name == Setup || r.adapters[name].facts().hosted || !r.settings(name).Enabled {
		return "", nil, false
	}
	path, err := r.cfg.LookPath(r.program(name))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", nil, false
	}
	return r.insideOf(path, 0)
}

// maxInterpreters bounds the chain of interpreters of a program.
const maxInterpreters = 3

func (r *Registry) insideOf(path string, depth int) (program string, shown []Shown, ok bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", nil, false
	}
	interpreter := shebang(real)
	if interpreter != "" && depth < maxInterpreters {
		if file, err := r.cfg.LookPath(interpreter); err == nil {
			_, more, _ := r.insideOf(file, depth+1)
			shown = append(shown, more...)
		}
	}
	if slices.ContainsFunc(shownAlways, func(dir string) bool { return within(real, dir) }) {
		return real, shown, true
	}
	for _, p := range r.cfg.Paths {
		if within(path, p) {
			return path, shown, true // its links are mounted with it, or not: the operator who named the folder is responsible
		}
		if within(real, p) {
			return real, shown, true
		}
	}
	if within(real, "/nix/store") { // on such systems all programs are in this store
		return real, append(shown, Shown{"/nix/store", "/nix/store"}), true
	}
	if packages := packagesOf(real); packages != "" && r.harmless(packages) {
		return real, append(shown, Shown{packages, packages}), true
	}
	if !r.harmless(real) {
		return "", nil, false
	}
	// A standalone program is mounted under its own path, and by its name where programs are looked up.
	return real, append(shown, Shown{real, real}, Shown{real, filepath.Join(InsideBin, filepath.Base(path))}), true
}

// packagesOf is the folder of npm packages that contains a file, "" for none: packages find each other there.
func packagesOf(file string) string {
	const mark = "/node_modules/"
	if i := strings.Index(file, mark); i > 0 {
		return file[:i+len(mark)-1]
	}
	return ""
}

// shebang is the program a script names on its first line, "" when the file is not a script.
func shebang(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	rest, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// notShown are the system's own folders that are never mounted whole.
var notShown = []string{"/", "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/var", "/var/lib"}

// harmless reports whether a file or folder may be shown to agents: it is not one of the system's large folders or a home, and
// neither contains nor is part of this server's data.
func (r *Registry) harmless(path string) bool {
	if slices.Contains(notShown, path) || filepath.Dir(path) == "/home" || within(path, filepath.Dir(r.cfg.HomesDir)) {
		return false
	}
	return !slices.ContainsFunc([]string{r.cfg.UserHome, r.cfg.HomesDir, r.cfg.WorktreesDir}, func(kept string) bool { return kept != "" && within(kept, path) })
}
