package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func git(dir string, args ...string) (string, error) { return gitWith(dir, nil, args...) }

func gitWith(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), env...), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@example.com", "GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// repository makes a repository of n files, about 2 KB each, in folders of 100, once for each part that asks: a folder is a project once.
func (b *bench) repository(part string, n int) (string, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("repo-%s-%d", part, n))
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		return dir, nil
	}
	body := make([]byte, 2000)
	for i := range n {
		pattern(body, int64(i)*2000)
		for j := 79; j < len(body); j += 80 {
			body[j] = '\n'
		}
		p := filepath.Join(dir, fmt.Sprintf("src/d%03d/f%05d.txt", i/100, i))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(p, body, 0o644); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "gc.auto=0", "commit", "-q", "-m", "all"}, {"gc", "-q"}} {
		if _, err := git(dir, args...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// worktree compares the time from POST to ready with plain `git worktree add` of the same repository.
func (b *bench) worktree() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	files := b.size(10000, 500)
	dir, err := b.repository("worktree", files)
	if err != nil {
		return err
	}
	var project struct{ ID, State string }
	if err := h.do("POST", "/teams/"+h.team+"/projects", map[string]any{"name": fmt.Sprintf("files %d", files), "source": map[string]any{"kind": "path", "path": dir}}, &project); err != nil {
		return err
	}
	var ours, base []float64
	for i := range b.size(5, 1) {
		wt := filepath.Join(b.dir, fmt.Sprintf("plain-%d", i))
		t0 := time.Now()
		if _, err := git(dir, "worktree", "add", "--no-track", "-q", "-b", fmt.Sprintf("plain-%d", i), wt, "main"); err != nil {
			return err
		}
		base = append(base, time.Since(t0).Seconds())
		if _, err := git(dir, "worktree", "remove", "--force", wt); err != nil {
			return err
		}
		t0 = time.Now()
		id, err := h.newWorkspace(project.ID, fmt.Sprintf("bench %d", i))
		if err != nil {
			return err
		}
		ours = append(ours, time.Since(t0).Seconds())
		if err := h.do("DELETE", "/workspaces/"+id, nil, nil); err != nil {
			return err
		}
	}
	r := median(ours) / median(base)
	b.figure(fmt.Sprintf("new workspace of %d files, s", files), fmt.Sprintf("%.3f", median(ours)), fmt.Sprintf("%.3f", median(base)), r, "< 1", r < 1)
	return nil
}

// poll compares one look for changes, when nothing changed, with bare git status, both with the untracked cache.
func (b *bench) poll() error {
	dir, err := b.repository("poll", b.size(10000, 500))
	if err != nil {
		return err
	}
	ours, base, err := pollTimes(dir, b.size(40, 5))
	if err != nil {
		return err
	}
	r := median(ours) / median(base)
	b.figure("poll with nothing changed, ms", fmt.Sprintf("%.2f", median(ours)*1e3), fmt.Sprintf("%.2f", median(base)*1e3), r, "<= 1.2", r <= 1.2)
	return nil
}

// memory reports the server's own resident memory at rest and for each further idle session, and the guest's.
func (b *bench) memory() error {
	fresh := &bench{binary: b.binary, self: b.self, dir: filepath.Join(b.dir, "fresh"), quick: b.quick}
	if err := os.MkdirAll(fresh.dir, 0o700); err != nil {
		return err
	}
	h, err := fresh.harness()
	if err != nil {
		return err
	}
	defer fresh.close()
	guest, err := h.guestPid()
	if err != nil {
		return err
	}
	const mb = 1 << 20
	time.Sleep(20 * time.Second) // at rest: a server has given back what only its start needed 15 s after that
	rest := float64(rss(h.cmd.Process.Pid)) / mb
	guestRest := float64(rss(guest)) / mb
	busy := func() float64 { // % of a core the server takes
		before, t0 := cpu(h.cmd.Process.Pid), time.Now()
		time.Sleep(time.Duration(b.size(10, 1)) * time.Second)
		return 100 * float64(cpu(h.cmd.Process.Pid)-before) / float64(time.Since(t0))
	}
	restBusy := busy()
	n := b.size(50, 5)
	for range n {
		if _, err := h.newSession("cat"); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second)
	each := (float64(rss(h.cmd.Process.Pid))/mb - rest) / float64(n)
	guestMany := float64(rss(guest)) / mb
	time.Sleep(time.Duration(b.size(130, 0)) * time.Second) // for two minutes a silent session is still looked at now and then
	idle := max(0, busy()-restBusy) * 1000 / float64(n)
	b.figure("server at rest, MB", f1(rest), "60", rest/60, "< 60 MB", rest < 60)
	b.figure("each further idle session, server, MB", fmt.Sprintf("%.2f", each), "1", each, "< 1 MB", each < 1)
	b.figure("1,000 idle sessions, server, MB", f1(rest+1000*each), "1024", (rest+1000*each)/1024, "< 1 GB", rest+1000*each < 1024)
	b.figure("1,000 idle sessions, server, % of a core", f1(idle), "2", idle/2, "< 2 %", idle < 2)
	b.figure("guest at rest, MB", f1(guestRest), "15", guestRest/15, "< 15 MB", guestRest < 15)
	b.figure(fmt.Sprintf("guest with %d idle sessions, MB", n), f1(guestMany), "15", guestMany/15, "< 15 MB", guestMany < 15)
	return nil
}
