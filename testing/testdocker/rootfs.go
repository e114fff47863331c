package testdocker

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// programs are what tests use in a container, from this machine.
var programs = []string{"sh", "bash", "git", "cat", "ls", "env", "sleep", "seq", "printf", "echo", "rm", "mkdir", "mv", "cp", "ln", "touch", "chmod",
	"head", "tail", "wc", "yes", "tr", "sort", "grep", "sed", "awk", "stty", "tty", "true", "false", "test", "id", "whoami", "uname", "kill", "ps",
	"dd", "df", "find", "xargs", "tee", "date", "stat", "nohup", "setsid", "mkfifo", "cut", "uniq", "hostname", "mount", "timeout", "od",
	"readlink", "realpath", "sha256sum", "md5sum", "base64", "less", "which", "nproc", "comm", "diff", "basename", "dirname", "pwd", "sync", "tar", "gzip", "python3", "perl", "node"}

// needed are those without which there is no image.
var needed = []string{"sh", "bash", "git", "cat", "sleep", "seq", "stty"}

// trees are folders programs need beside their libraries.
var trees = []string{"/usr/lib/git-core", "/usr/share/git-core"}

var library = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// WriteTools writes the root that Image has, with more on top, as WriteRoot does.
func WriteTools(w io.Writer, more ...string) error {
	return WriteRoot(w, append(slices.Clone(programs), more...)...)
}

// WriteRoot writes, as a tar archive, a small root made of programs of this machine, by name or path, and the libraries they need: an image
// without a registry.
func WriteRoot(w io.Writer, names ...string) error {
	t := tar.NewWriter(w)
	have := map[string]bool{}
	dir := func(path string) error {
		path = strings.TrimPrefix(path, "/")
		for i := range path + "/" {
			if p := (path + "/")[:i]; p != "" && (path + "/")[i] == '/' && !have[p] {
				have[p] = true
				mode := int64(0o755)
				if p == "tmp" || p == "var/tmp" {
					mode = 0o1777
				}
				if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: p + "/", Mode: mode}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var file func(path string) error
	file = func(path string) error {
		name := strings.TrimPrefix(inImage(path), "/")
		if have[name] {
			return nil
		}
		if err := dir(filepath.Dir("/" + name)); err != nil {
			return err
		}
		have[name] = true
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(b))}); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
		if !bytes.HasPrefix(b, []byte("\x7fELF")) {
			return nil
		}
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			return nil // a static one
		}
		for _, m := range library.FindAllSubmatch(out, -1) {
			// Libraries are found by the names they are asked for: links are written as files.
			if err := file(usr(string(m[1]))); err != nil {
				return err
			}
		}
		return nil
	}
	for _, l := range [][2]string{{"bin", "usr/bin"}, {"sbin", "usr/sbin"}, {"lib", "usr/lib"}, {"lib64", "usr/lib64"}} {
		if err := dir("/" + l[1]); err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: l[0], Linkname: l[1], Mode: 0o777}); err != nil {
			return err
		}
		have[l[0]] = true
	}
	for _, d := range []string{"/etc", "/tmp", "/run", "/home", "/root", "/proc", "/sys", "/dev", "/var/tmp", "/opt"} {
		if err := dir(d); err != nil {
			return err
		}
	}
	for _, name := range names {
		if info, err := os.Stat(name); filepath.IsAbs(name) && err == nil && info.IsDir() {
			if err := copyTree(t, name, have, dir, file); err != nil {
				return err
			}
			continue
		}
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			if slices.Contains(needed, name) {
				return fmt.Errorf("making an image: %w", err)
			}
			continue
		}
		if name == "python3" || name == "perl" || name == "node" {
			continue // large, and found by those tests that bring them
		}
		if err := file(path); err != nil {
			return err
		}
		if want := "usr/bin/" + filepath.Base(name); !have[want] {
			have[want] = true
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: want, Linkname: inImage(path), Mode: 0o777}); err != nil {
				return err
			}
		}
	}
	if slices.Contains(names, "git") {
		for _, tree := range trees {
			if err := copyTree(t, tree, have, dir, file); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

// inImage is where a file of this machine lies in an image. What is below /tmp, as a checkout may be, lies elsewhere: containers have a /tmp
// of their own.
func inImage(path string) string {
	if strings.HasPrefix(path, "/tmp/") {
		return "/opt/programs" + path
	}
	return path
}

// usr writes a library's path as it is where /lib is a link to /usr/lib.
func usr(path string) string {
	if strings.HasPrefix(path, "/lib") {
		return "/usr" + path
	}
	return path
}

// copyTree copies a folder. A program that is there many times over under other names is a link.
func copyTree(t *tar.Writer, tree string, have map[string]bool, dir, file func(string) error) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && d.IsDir() && (d.Name() == "__pycache__" || d.Name() == "test") {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if info.Size() > 2<<20 {
				return nil // git's remote helpers, and others no test needs
			}
			return file(path)
		}
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if err := dir(filepath.Dir(path)); err != nil {
			return err
		}
		have[strings.TrimPrefix(path, "/")] = true
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(path, "/"), Linkname: target, Mode: 0o777})
	})
}
