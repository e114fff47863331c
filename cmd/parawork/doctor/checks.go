package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/guestbin"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store"
	"golang.org/x/sys/unix"
)

// folder checks that the data folder can be written and has room.
func (r *report) folder(dir string) {
	there := dir // the folder itself, or the nearest above it that exists
	for {
		st, err := os.Stat(there)
		if err == nil && !st.IsDir() {
			r.say(bad, "data folder", there+" is not a folder", "Move it away, or set dataDir to another folder.")
			return
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || there == filepath.Dir(there) {
			r.say(bad, "data folder", err.Error(), "Give the server's user the right to it, or set dataDir to another folder.")
			return
		}
		there = filepath.Dir(there)
	}
	if unix.Access(there, unix.W_OK|unix.X_OK) != nil {
		r.say(bad, "data folder", there+" cannot be written", "Give it to the server's user (chown), or set dataDir to another folder.")
		return
	}
	found := dir
	if there != dir {
		found += ", will be made at the first start"
	}
	var st unix.Statfs_t
	if err := unix.Statfs(there, &st); err != nil {
		r.say(good, "data folder", found, "")
		return
	}
	free := int64(st.Bavail) * int64(st.Bsize) >> 20
	found = fmt.Sprintf("%s, %d MiB free", found, free)
	switch {
	case free < 200:
		r.say(bad, "data folder", found, "Make room: databases and terminals need some, worktrees and their builds much more.")
	case free < 5<<10:
		r.say(minor, "data folder", found, "That is little for worktrees and their builds.")
	default:
		r.say(good, "data folder", found, "")
	}
}

// key checks that the file that seals secrets is there, and the one the database is sealed with, without making it.
func (r *report) key(ctx context.Context, cfg *config.Config, st store.State) {
	path := instance.KeyPath(cfg.DataDir)
	key, err := vault.ReadKey(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		r.say(bad, "secret key", err.Error(), "")
		return
	}
	const found = " (keep a backup apart from the database's)"
	if st.Missing || st.Empty || st.Problem != nil || st.Applied != st.Known { // the next start looks at it
		if !missing {
			r.say(good, "secret key", path+found, "")
		}
		return
	}
	db, err := store.Open(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
	if err != nil {
		r.say(bad, "secret key", err.Error(), "")
		return
	}
	defer db.Close()
	next, err := instance.WaitingKey(ctx, cfg.DataDir, db)
	f, tried := instance.Fit(ctx, db, key)
	switch err := errors.Join(err, tried); {
	case err != nil:
		r.say(bad, "secret key", err.Error(), "")
	case next != nil:
		r.say(minor, "secret key", vault.NextKey(path)+" is the key the database is sealed with", "The next start of the server puts it in its place.")
	case missing && f.Sealed > 0:
		r.say(bad, "secret key", fmt.Sprintf("%s is missing, and the database holds %s that only it opens", path, instance.Count(f.Sealed, "sealed value")), instance.HowToGoOn)
	case missing:
	case !f.Right():
		r.say(bad, "secret key", fmt.Sprintf("%s is not the key the database is sealed with: it opens %d of %s", path, f.Opened, instance.Count(f.Sealed, "sealed value")), instance.HowToGoOn)
	default:
		r.say(good, "secret key", path+", which the database is sealed with"+found, "")
	}
}

// oldestGit is the oldest git everything is tried with.
var oldestGit = [2]int{2, 38}

var gitVersion = regexp.MustCompile(`git version (\d+)\.(\d+)\S*`)

func (r *report) git(ctx context.Context) {
	path, err := exec.LookPath("git")
	if err != nil {
		r.say(bad, "git", "not found", "Install it: apt-get install git")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version").Output()
	m := gitVersion.FindSubmatch(out)
	if err != nil || m == nil {
		r.say(bad, "git", fmt.Sprintf("%s does not say its version: %v", path, err), "Reinstall it: apt-get install --reinstall git")
		return
	}
	major, _ := strconv.Atoi(string(m[1]))
	minorNo, _ := strconv.Atoi(string(m[2]))
	found := fmt.Sprintf("%s (%s)", strings.TrimPrefix(string(m[0]), "git version "), path)
	if major < oldestGit[0] || major == oldestGit[0] && minorNo < oldestGit[1] {
		r.say(bad, "git", found, fmt.Sprintf("Install git %d.%d or newer: merging without a worktree (merge-tree --write-tree) needs it.", oldestGit[0], oldestGit[1]))
		return
	}
	// A part of git that some systems package apart.
	if dir, err := exec.CommandContext(ctx, path, "--exec-path").Output(); err == nil {
		if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(dir)), "git-remote-https")); err != nil {
			r.say(minor, "git", found+", without git-remote-https: projects cannot be cloned from https addresses", "Install the full git package.")
			return
		}
	}
	r.say(good, "git", found, "")
}

// database looks at the database without changing it. The state is zero when it could not be read.
func (r *report) database(ctx context.Context, cfg *config.Config) store.State {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	st, err := store.Inspect(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
	if err != nil {
		r.say(bad, "database", err.Error(), "")
		return store.State{}
	}
	name := "SQLite, " + st.File
	if st.Dialect == store.Postgres {
		name = "PostgreSQL " + st.Server
	}
	switch {
	case st.Problem != nil:
		r.say(bad, "database", name+"\n"+st.Problem.Error(), "")
	case st.Missing, st.Empty:
		r.say(good, "database", name+", will be set up at the first start", "")
	case st.Applied < st.Known:
		r.say(good, "database", fmt.Sprintf("%s, schema %d; the next start brings it to %d (make a backup first)", name, st.Applied, st.Known), "")
	default:
		r.say(good, "database", fmt.Sprintf("%s, schema %d; %s, %s; running: %s, %s", name, st.Applied, instance.Count(st.Users, "user"),
			instance.Count(st.Teams, "team"), instance.Count(st.Sessions, "session"), instance.Count(st.Sandboxes, "sandbox")), "")
		if st.Users == 0 {
			r.say(minor, "users", "none yet", "Start the server and open the link it prints, or run: parawork admin create-user")
		} else if st.Operators == 0 {
			r.say(minor, "users", "no operator", "Make one: parawork admin create-user --operator ...")
		}
	}
	return st
}

// address checks whether the server can listen, or already does.
func (r *report) address(ctx context.Context, cfg *config.Config) {
	listen := cfg.Server.Listen
	l, err := net.Listen("tcp", listen)
	if err == nil {
		l.Close()
		r.say(good, "address", listen+" is free", "")
	} else if version, ok := running(ctx, listen); ok {
		r.say(good, "address", fmt.Sprintf("%s, Parawork %s is serving", listen, version), "")
	} else {
		r.say(bad, "address", fmt.Sprintf("%s cannot be listened on: %v", listen, err), "End the program that uses the port, or set server.listen to another one.")
	}
	if cfg.Server.AllowInsecureHTTP {
		r.say(minor, "address", "plain http beyond this machine is allowed (server.allowInsecureHttp): passwords cross the network readable",
			"Put a reverse proxy with https before it: docs/operate.md")
	}
}

// running asks whether Parawork answers at an address, and its version.
func running(ctx context.Context, listen string) (version string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", false
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/api/v1/health", nil)
	if err != nil {
		return "", false
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	var health struct{ Status, Version string }
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil || json.Unmarshal(bytes.TrimSpace(body), &health) != nil || health.Status == "" {
		return "", false
	}
	return health.Version, true
}

// roots checks the folders projects may be chosen from.
func (r *report) roots(cfg *config.Config) {
	if len(cfg.Projects.AllowedRoots) == 0 {
		r.say(good, "projects", "from git addresses and the sample; no folder of this server is allowed (projects.allowedRoots)", "")
	}
	for _, root := range cfg.Projects.AllowedRoots {
		entries, err := os.Open(root)
		if err == nil {
			_, err = entries.Readdirnames(1)
			entries.Close()
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			r.say(minor, "projects", fmt.Sprintf("allowed root %s: %v", root, err), "Make the folder, give the server's user the right to read it, or take it out of projects.allowedRoots.")
		case root == "/":
			r.say(minor, "projects", "every folder of this server is allowed", "Name the folders your repositories are in, in projects.allowedRoots.")
		default:
			r.say(good, "projects", "allowed root "+root, "")
		}
	}
}

// guest checks that there is a program to start in sandboxes, without unpacking it.
func (r *report) guest(env func(string) string, carried bool) {
	if p := env(guestbin.Env); p != "" {
		if _, err := guestbin.Runnable(p, guestbin.Env+" names"); err != nil {
			r.say(bad, "guest", err.Error(), "")
			return
		}
		r.say(good, "guest", p+" ("+guestbin.Env+")", "")
		return
	}
	if carried {
		r.say(good, "guest", "part of this build", "")
		return
	}
	if self, err := os.Executable(); err == nil {
		if p, err := guestbin.Runnable(filepath.Join(filepath.Dir(self), "parawork-guest"), "beside the server lies"); err == nil {
			r.say(good, "guest", p, "")
			return
		}
	}
	r.say(bad, "guest", "this build does not carry the program that runs in sandboxes", "Build with `make build`, or set "+guestbin.Env+" to a parawork-guest binary.")
}

// agents says which agents can be started.
func (r *report) agents(ctx context.Context, cfg *config.Config) {
	reg, err := agents.New(agents.Config{Agents: fromconfig.Agents(cfg), HomesDir: filepath.Join(cfg.DataDir, "homes"), WorktreesDir: filepath.Join(cfg.DataDir, "worktrees")})
	if err != nil {
		r.say(bad, "agents", err.Error(), "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	usable := 0
	for _, a := range reg.List(ctx) {
		what := "agent"
		switch {
		case a.Agent == agents.Command:
		case !a.Enabled:
			r.say(good, what, a.Name+": switched off", "")
		case a.Installed:
			if a.Agent != agents.Shell {
				usable++
			}
			r.say(good, what, strings.TrimSpace(fmt.Sprintf("%s %s", a.Name, a.Version))+" ("+a.Path+")", "")
		default:
			cure := "Check agents." + a.Agent + ".command and the PATH of the server's user."
			if a.Install != "" {
				cure = "Install it: " + a.Install
			}
			r.say(minor, what, a.Name+": not found", cure)
		}
	}
	if usable == 0 {
		r.say(minor, "agent", "no coding agent is installed; shells work", "")
	}
}
