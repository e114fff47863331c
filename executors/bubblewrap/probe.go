//go:build linux && (amd64 || arm64)

package bubblewrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/internal/id"
)

// probeFor is how long the result of a probe is cached.
const probeFor = time.Minute

// probeIn bounds a probe.
const probeIn = 10 * time.Second

// nobody is the user of a root server's probe: it runs only our own program.
const nobody = 65534

// oldest is the first bubblewrap that can forbid further user namespaces.
var oldest = [2]int{0, 8}

// probe caches whether sandboxes can be made on this machine.
type probe struct {
	mu      sync.Mutex
	at      time.Time // of the last probe, zero = none that counts
	trouble *trouble  // what it found
	startMs int64     // how long making the last sandbox took
}

// trouble is a reason why no sandbox can be made, and what to do about it.
type trouble struct{ reason, cure string }

func (t *trouble) Error() string { return t.reason }

// forget makes the next call probe again.
func (p *probe) forget() {
	p.mu.Lock()
	p.at = time.Time{}
	p.mu.Unlock()
}

// took records how long a sandbox took to be ready.
func (p *probe) took(d time.Duration) {
	p.mu.Lock()
	p.startMs = max(1, d.Milliseconds())
	p.mu.Unlock()
}

// Capabilities says whether sandboxes can be made on this machine, by making one; the result is cached for a while.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := e.cfg.words()
	if !e.cfg.Enabled {
		c.Reason, c.Cure = "it is switched off", "Set sandboxing.bubblewrap.enabled to true in config.json."
		return c, nil
	}
	p := &e.probe
	p.mu.Lock()
	defer p.mu.Unlock() // concurrent callers wait for the same result
	if now := e.cfg.Now(); p.at.IsZero() || now.Sub(p.at) >= probeFor || now.Before(p.at) {
		t := e.try(ctx)
		if ctx.Err() != nil {
			return c, fmt.Errorf("trying to make a box: %w", context.Cause(ctx))
		}
		p.at, p.trouble = now, t
	}
	c.StartMs = p.startMs
	if p.trouble != nil {
		c.Reason, c.Cure = p.trouble.reason, p.trouble.cure
		return c, nil
	}
	c.Available = true
	limits, pause, warning := e.groups.Support()
	c.Limits, c.Pause, c.Warning = limits, pause, strings.TrimSpace(e.missing()+" "+warning)
	return c, nil
}

// missing names configured paths that do not exist.
func (e *Executor) missing() string {
	var gone []string
	for _, path := range e.cfg.Paths {
		if _, err := os.Stat(path); err != nil {
			gone = append(gone, path)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "Not there, and so not shown inside: " + strings.Join(gone, ", ") + " (sandboxing.bubblewrap.paths)."
}

// program finds bubblewrap.
func (e *Executor) program() (string, error) {
	name := cmp.Or(e.cfg.Bwrap, "bwrap")
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", &trouble{"bubblewrap is not installed", "Install bubblewrap: apt-get install bubblewrap, or dnf install bubblewrap."}
	}
	return path, nil
}

// try makes a sandbox as every sandbox is made, in which our own program prints its version. nil = it works.
func (e *Executor) try(ctx context.Context) *trouble {
	if info, err := os.Stat(e.cfg.GuestPath); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &trouble{"the guest program is missing", "Run make build, or point the server at its guest binary."}
	}
	bwrap, err := e.program()
	if err != nil {
		return asTrouble(err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeIn)
	defer cancel()
	if t := checkVersion(ctx, bwrap); t != nil {
		return t
	}
	began := time.Now()
	said, err := e.tryBox(ctx)
	if err == nil {
		if e.probe.startMs == 0 {
			e.probe.startMs = max(1, time.Since(began).Milliseconds())
		}
		return nil
	}
	return explain(said, err)
}

func asTrouble(err error) *trouble {
	if t, ok := errors.AsType[*trouble](err); ok {
		return t
	}
	return &trouble{err.Error(), "See the server's log."}
}

var versionWords = regexp.MustCompile(`(\d+)\.(\d+)`)

// checkVersion rejects a bubblewrap that is too old.
func checkVersion(ctx context.Context, bwrap string) *trouble {
	out, err := exec.CommandContext(ctx, bwrap, "--version").CombinedOutput()
	m := versionWords.FindStringSubmatch(string(out))
	if err != nil || m == nil {
		return &trouble{bwrap + " does not say its version: " + firstLine(string(out)), "Install bubblewrap 0.8 or newer."}
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < oldest[0] || major == oldest[0] && minor < oldest[1] {
		return &trouble{"bubblewrap " + m[0] + " is too old: it cannot forbid further user namespaces", "Install bubblewrap 0.8 or newer."}
	}
	return nil
}

// tryBox makes the smallest sandbox and returns the output when that did not work.
func (e *Executor) tryBox(ctx context.Context) (said string, err error) {
	box := executors.MountSpec{Home: "/home/" + insideUser, UID: -1, GID: -1}
	if root() {
		box.UID, box.GID = nobody, nobody
	}
	p, err := e.base(box, false)
	if err != nil {
		return "", err
	}
	p.mount(executors.Mount{Source: e.cfg.GuestPath, Target: executors.InsideGuest, ReadOnly: true})
	p.add("--remount-ro", "/", "--chdir", "/")
	p.command = []string{executors.InsideGuest, "version"}
	out, err := os.CreateTemp("", "parawork-probe-")
	if err != nil {
		return "", fmt.Errorf("making a file: %w", err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	// In place of the listener, and of the pipe on which bubblewrap reports: if this program's end cut that pipe, the sandbox would wait
	// forever to be released.
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close()
	spec, mark := p.spec(box), id.New("probe")
	spec.Env = []string{hostproc.Mark + "=" + mark}
	run, err := e.run(spec, "/", null, out, null, func(int) error { return nil })
	if err != nil {
		return err.Error(), err
	}
	select {
	case <-run.Ended:
	case <-ctx.Done():
		ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeIn)
		defer cancel()
		// Not bubblewrap alone: the process it has started waits for it, and would wait forever.
		if err := hostproc.End(ectx, mark, nil, hostproc.Identity{}, 0); err != nil {
			e.cfg.Log.Warn("a box that was tried could not be ended", "error", err)
		}
		<-run.Ended
		return "", errors.New("it did not end in time")
	}
	b, err := hostproc.ReadSmall(out.Name())
	if err != nil {
		return "", err
	}
	said = strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
	if !strings.HasPrefix(said, "parawork-guest ") || strings.Contains(said, "\n") {
		return said, errors.New("it did not work")
	}
	return said, nil
}

// explain explains to a person the output, and which restriction of this machine caused it.
func explain(said string, err error) *trouble {
	if t, ok := errors.AsType[*trouble](err); ok {
		return t
	}
	said = firstLine(said)
	if said == "" {
		said = err.Error()
	}
	low := strings.ToLower(said)
	switch {
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" && (strings.Contains(low, "permission denied") || strings.Contains(low, "not permitted")):
		return &trouble{"AppArmor forbids user namespaces to ordinary programs (kernel.apparmor_restrict_unprivileged_userns = 1): " + said,
			"Allow them to bubblewrap: put \"abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }\" into /etc/apparmor.d/bwrap and run apparmor_parser -r /etc/apparmor.d/bwrap; or set the sysctl to 0."}
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		return &trouble{"user namespaces are switched off for ordinary users (kernel.unprivileged_userns_clone = 0)", "sysctl -w kernel.unprivileged_userns_clone=1, and the same in /etc/sysctl.d to keep it."}
	case sysctl("user/max_user_namespaces") == "0":
		return &trouble{"user namespaces are switched off (user.max_user_namespaces = 0)", "sysctl -w user.max_user_namespaces=15000, and the same in /etc/sysctl.d to keep it."}
	case strings.Contains(low, "proc") && (strings.Contains(low, "not permitted") || strings.Contains(low, "permission denied")):
		return &trouble{"the server runs in a container that hides parts of /proc, so no new one can be mounted: " + said,
			"Start the container with --security-opt systempaths=unconfined, or run the server on the machine itself."}
	case strings.Contains(low, "no permissions to creat"), strings.Contains(low, "creating new namespace"), strings.Contains(low, "not permitted"):
		return &trouble{"this machine does not let namespaces be made: " + said,
			"In a container, start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined (and --cap-add SYS_ADMIN where the server is root), or run the server on the machine itself."}
	}
	return &trouble{"a box could not be made: " + said, "Fix what it says, or choose another executor."}
}

func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 300 {
		line = strings.ToValidUTF8(line[:300], "?")
	}
	return line
}
