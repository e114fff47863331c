package daemon

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
)

// Environment variables that mark the processes of a sandbox and of one process in it.
const (
	sandboxMark = "PARAWORK_SANDBOX_ID"
	processMark = "PARAWORK_PROCESS"
)

// allowed are the variables of the guest's own environment that processes get, in addition to LC_*. TERM is not among them: the
// terminal is ours, not the one the server was started from.
var allowed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", sandboxMark}

// environ is the environment of a process: the allow-list, the way out, what the sandbox gives to all, what the spec adds, and
// the marks.
func (d *Daemon) environ(spec guest.ProcessSpec, dir string) []string {
	env := map[string]string{"TERM": "xterm-256color", "PATH": "/usr/local/bin:/usr/bin:/bin"}
	for _, entry := range d.cfg.Env {
		name, value, ok := strings.Cut(entry, "=")
		own := d.cfg.OwnEnv && !strings.HasPrefix(name, guest.EnvGive)
		if ok && (own || slices.Contains(allowed, name) || strings.HasPrefix(name, "LC_")) {
			env[name] = value
		}
	}
	d.showWayOut(env)
	for _, entry := range d.cfg.Env {
		if given, is := strings.CutPrefix(entry, guest.EnvGive); is {
			if name, value, ok := strings.Cut(given, "="); ok && name != "" {
				env[name] = value
			}
		}
	}
	env["PWD"] = dir
	maps.Copy(env, spec.Env)
	if spec.Tty {
		d.tokens.environ(spec.ID, env)
	}
	if env[guest.EnvGatewayURL] != "" {
		nearGateway(env)
	}
	env[sandboxMark], env[processMark] = d.cfg.SandboxID, spec.ID
	out := make([]string, 0, len(env))
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// noProxy are the names that programs reach directly: the sandbox's own loopback.
const noProxy = "localhost,.localhost,127.0.0.1,::1,[::1]"

// nearGateway keeps programs from using a proxy for the model gateway, which is at the sandbox's own loopback.
func nearGateway(env map[string]string) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if env[name] == "" {
			continue
		}
		for _, no := range []string{"NO_PROXY", "no_proxy"} {
			if list := strings.Split(env[no], ","); !slices.Contains(list, "127.0.0.1") {
				env[no] = strings.TrimPrefix(strings.Join(append(list, "127.0.0.1"), ","), ",")
			}
		}
	}
}

// plainPath matches paths that need no quoting in any shell or configuration file.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._/+-]+$`)

// showWayOut configures the proxy in each way that some program understands: curl takes http_proxy only in lower case, Node uses
// the variables only on request, and ssh needs a program to use a proxy.
func (d *Daemon) showWayOut(env map[string]string) {
	if d.cfg.Gate == "" {
		return
	}
	env[guest.EnvGate] = d.cfg.Gate
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env[name], env[strings.ToLower(name)] = d.cfg.Proxy, d.cfg.Proxy
	}
	env["NO_PROXY"], env["no_proxy"] = noProxy, noProxy
	env["NODE_USE_ENV_PROXY"] = "1"
	if plainPath.MatchString(d.cfg.Self) {
		env["GIT_SSH_COMMAND"] = `ssh -o "ProxyCommand=` + d.cfg.Self + ` connect %h %p"`
	}
}

// lookPath finds a program in the PATH of env, as a shell would; a name with a slash is used as a path. The error for a missing
// one says where it was looked for, and what is there instead.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var path string
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = v
		}
	}
	var looked []string
	why := ""
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // the worktree's own files are not programs by name
		}
		looked = append(looked, dir)
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		switch {
		case err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			return file, nil
		case why != "":
		case err == nil:
			why = file + " is not an executable program"
		default:
			why = dangling(file)
		}
	}
	if why != "" {
		return "", fmt.Errorf("%q %s: %s", name, guest.NotUsable, why)
	}
	return "", fmt.Errorf("%q %s (%s)", name, guest.NotInPath, strings.Join(looked, ", "))
}

// dangling explains why a link to a program is broken, "" when there is no such link. Files of an image below a folder that the
// sandbox mounts itself, such as /tmp, are hidden in the sandbox, and only there.
func dangling(file string) string {
	at := file
	for range 20 {
		target, err := os.Readlink(at)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		at = filepath.Clean(target)
	}
	if at == file {
		return ""
	}
	words := file + " is a link to " + at + ", which does not exist"
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return words
	}
	over := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] != "/" && len(f[4]) > len(over) && strings.HasPrefix(at, f[4]+"/") {
			over = f[4]
		}
	}
	if over != "" {
		words += ": " + over + " is the sandbox's own folder and hides the image's"
	}
	return words
}
