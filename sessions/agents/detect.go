package agents

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// versionTimeout bounds the wait for a program to print its version: a cold start of a large CLI takes seconds.
const versionTimeout = 10 * time.Second

// detector finds programs and their versions, and caches them until the file changes.
type detector struct {
	cfg  Config
	mu   sync.Mutex
	seen map[string]found // by path
}

type found struct {
	path, version string
	size          int64
	mtime         time.Time
	wait          chan struct{} // closed when version is known
}

var versionWords = regexp.MustCompile(`\d+\.\d+[0-9A-Za-z.+-]*`)

// find looks up program and runs it to get its version, with args and, on top of the usual environment, env; with nil args it
// gets no version.
func (d *detector) find(ctx context.Context, program string, args []string, env map[string]string) found {
	path, err := d.cfg.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return found{}
	}
	st, err := os.Stat(path)
	if err != nil {
		return found{}
	}
	if args == nil {
		return found{path: path}
	}
	d.mu.Lock()
	f, ok := d.seen[path]
	if ok && f.size == st.Size() && f.mtime.Equal(st.ModTime()) {
		d.mu.Unlock()
		select {
		case <-f.wait:
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.seen[path]
		case <-ctx.Done():
			return found{path: path}
		}
	}
	f = found{path: path, size: st.Size(), mtime: st.ModTime(), wait: make(chan struct{})}
	d.seen[path] = f
	d.mu.Unlock()

	version, done := d.ask(ctx, path, args, env)
	d.mu.Lock()
	f.version = version
	if done {
		d.seen[path] = f
	} else {
		delete(d.seen, path)
	}
	d.mu.Unlock()
	close(f.wait)
	return f
}

// ask runs the program. done is false when the answer must not be cached.
func (d *detector) ask(ctx context.Context, path string, args []string, env map[string]string) (version string, done bool) {
	home := filepath.Join(d.cfg.HomesDir, ".detect")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", false
	}
	run, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(run, path, args...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "CODEX_HOME=" + home, "CLAUDE_CONFIG_DIR=" + home}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		d.cfg.Log.Debug("agent did not print its version", "path", path, "error", err)
		return "", run.Err() == nil
	}
	return string(versionWords.Find(out[:min(len(out), 4096)])), true
}
