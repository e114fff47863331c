package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
)

// Home is a private home of agents and shells: that of one user, or the shared one of a sandbox with its own home. Agents may
// write in it too, so its contents are untrusted. Names of files are relative to it.
type Home struct {
	Dir       string // as the agent sees it
	temp      string // folder for temporary files, as the agent sees it
	account   string // the account whose folder holds the agent's own files, "" = the home itself
	trusted   []string
	source    string // home of the server's own user
	files     Files
	own       bool   // a person's own home: see Inside
	artifacts string // the artifacts folder of the workspace; "" outside one
	exclusive func() (unlock func(), err error)
}

const (
	claudeDir = ".claude"
	codexDir  = ".codex"
)

func (h Home) claude() string { return h.abs(claudeDir) }
func (h Home) codex() string  { return h.abs(codexDir) }

// accountsDir holds the folders of accounts, below a home.
const accountsDir = ".accounts"

// rel is the name of a file of the agent: below its account's folder, so that two logins can coexist.
func (h Home) rel(name string) string {
	if h.account == "" {
		return path.Clean(name)
	}
	return path.Join(accountsDir, h.account, name)
}

// abs is rel as the agent sees it.
func (h Home) abs(name string) string { return path.Join(h.Dir, h.rel(name)) }

// state is the folder in which the agent stores its own files.
func (h Home) state() string { return h.abs("") }

// base is the home without an account: it holds what all accounts share.
func (h Home) base() Home {
	h.account = ""
	return h
}

// share links folders below the account's folder to those of the home itself. It leaves existing ones as they are.
func (h Home) share(dirs []string) error {
	if h.account == "" {
		return nil
	}
	for _, dir := range dirs {
		link := h.rel(dir)
		to := strings.Repeat("../", strings.Count(link, "/")) + dir
		err := errors.Join(h.files.Mkdir(dir), h.files.Mkdir(path.Dir(link)))
		if err == nil {
			if err = h.files.Symlink(to, link); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("sharing %s between accounts: %w", dir, err)
		}
	}
	return nil
}

// env is the environment of every process of a session. It names the agents' folders even for a shell, so that an agent started
// there by hand finds the same login.
func (h Home) env(l Launch) map[string]string {
	env := map[string]string{
		"HOME":                  h.Dir,
		"TMPDIR":                h.temp,
		"TERM":                  "xterm-256color",
		"COLORTERM":             "truecolor",
		"COLORFGBG":             "15;0", // white on black: for programs that ask no terminal, or before it answers
		"CLAUDE_CONFIG_DIR":     h.base().claude(),
		"CODEX_HOME":            h.base().codex(),
		"PARAWORK_SESSION_ID":   l.SessionID,
		"PARAWORK_WORKSPACE_ID": l.WorkspaceID,
	}
	if runtime.GOOS == "linux" || l.Inside != nil {
		env["LC_CTYPE"] = "C.UTF-8" // a server started by init has no locale, and the agents draw with Unicode
	}
	if l.Light {
		env["COLORFGBG"] = "0;15"
	}
	if l.Inside != nil {
		maps.Copy(env, map[string]string{
			"XDG_CONFIG_HOME": path.Join(h.Dir, ".config"), "XDG_DATA_HOME": path.Join(h.Dir, ".local/share"),
			"XDG_STATE_HOME": path.Join(h.Dir, ".local/state"), "XDG_CACHE_HOME": path.Join(h.Dir, ".cache"),
		})
	}
	if h.artifacts != "" {
		env[EnvArtifacts] = path.Join(h.Dir, h.artifacts)
	}
	if l.Brief != "" {
		env["PARAWORK_PLACE"] = l.Brief // for agents that take no instructions on their command line
	}
	if l.UserName != "" && l.UserEmail != "" {
		env["GIT_AUTHOR_NAME"], env["GIT_AUTHOR_EMAIL"] = l.UserName, l.UserEmail
		env["GIT_COMMITTER_NAME"], env["GIT_COMMITTER_EMAIL"] = l.UserName, l.UserEmail
	}
	return env
}

// editJSON reads the object in a file, lets edit change it, and writes it back, atomically, while nobody else edits in this home.
// It renames a file that is not a JSON object and starts a new one; it replaces a link or a pipe.
func (h Home) editJSON(name string, edit func(map[string]any)) error {
	unlock, err := h.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	doc := map[string]any{}
	raw, err := h.files.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, homedir.ErrNotPlain):
	case err != nil:
		return err
	default:
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if dec.Decode(&doc) != nil || doc == nil {
			doc = map[string]any{}
			if err := h.write(name+".unreadable", raw); err != nil {
				return err
			}
		}
	}
	edit(doc)
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	if bytes.Equal(out, raw) {
		return nil
	}
	return h.write(name, out)
}

// object returns doc[key] as an object, and creates it when it is not one.
func object(doc map[string]any, key string) map[string]any {
	if o, ok := doc[key].(map[string]any); ok {
		return o
	}
	o := map[string]any{}
	doc[key] = o
	return o
}

// makeAll creates a folder below the account's.
func (h Home) makeAll(dir string) error {
	if err := h.files.Mkdir(h.rel(dir)); err != nil {
		return fmt.Errorf("preparing the agent's folder: %w", err)
	}
	return nil
}

func (h Home) write(name string, b []byte) error {
	if err := h.files.WriteFile(name, b); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// readOwn reads a file of the server's own user: it must be regular, and no larger than a login or a preset.
func readOwn(name string) ([]byte, time.Time, error) {
	// The server's own user may store the file behind a link.
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, time.Time{}, err
	}
	dir, err := homedir.Open(filepath.Dir(real))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer dir.Close()
	st, err := dir.Stat(filepath.Base(real))
	if err != nil {
		return nil, time.Time{}, err
	}
	raw, err := dir.ReadFile(filepath.Base(real))
	return raw, st.ModTime, err
}

// copyLogin copies the login of the server's own user, when it is newer than the copy: the agent renews its copy itself. A marker
// file distinguishes a copy from a login made in the terminal.
func (h Home) copyLogin(agent, from, to string) error {
	missing := func() error {
		return fault.New(fault.Conflict, "existing_login_missing",
			"There is no login of %s to copy: ~/%s does not exist for the server's own user. Log in there first, or choose another account.", agent, from)
	}
	if h.source == "" {
		return missing()
	}
	raw, at, err := readOwn(filepath.Join(h.source, from))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return missing()
	}
	if err != nil {
		return fmt.Errorf("reading the login of %s: %w", agent, err)
	}
	dst := h.rel(to)
	if have, err := h.files.Stat(dst); err == nil && have.Regular() && !at.After(have.ModTime) {
		return nil
	}
	if err := h.files.Mkdir(path.Dir(dst)); err != nil {
		return fmt.Errorf("copying the login of %s: %w", agent, err)
	}
	if err := h.write(dst, raw); err != nil {
		return err
	}
	return h.write(dst+".copied", []byte("copied by Parawork\n"))
}

// dropLogin removes a login that copyLogin made: the person has chosen another account since.
func (h Home) dropLogin(to string) error {
	dst := h.rel(to)
	if _, err := h.files.Stat(dst + ".copied"); err != nil {
		return nil
	}
	for _, name := range []string{dst, dst + ".copied"} {
		if err := h.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a copied login: %w", err)
		}
	}
	return nil
}

// login updates the copied login to match the account.
func (h Home) login(a Account, agent, from, to string) error {
	if h.own {
		return nil // its owner is logged in there, or will log in in the terminal
	}
	if a.Kind == ExistingLogin {
		return h.copyLogin(agent, from, to)
	}
	return h.dropLogin(to)
}

// homeHere opens the home of a user on this server. The returned function closes it.
func (r *Registry) homeHere(userID string) (Home, func(), error) {
	if !plainName(userID) {
		return Home{}, nil, fault.New(fault.Invalid, "invalid_user", "The user's id %q cannot name a home.", userID)
	}
	dir := filepath.Join(r.cfg.HomesDir, userID)
	failed := func(err error) (Home, func(), error) {
		return Home{}, nil, fault.Wrap(err, fault.Unavailable, "home_not_writable", "The private home of the agents could not be created: %v", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return failed(err)
	}
	files, err := homedir.Open(dir)
	if err != nil {
		return failed(err)
	}
	h := Home{Dir: dir, temp: filepath.Join(dir, "tmp"), trusted: []string{r.cfg.WorktreesDir}, source: r.cfg.UserHome, files: files,
		exclusive: func() (func(), error) { return lockHere(dir) }}
	if err := h.makeFolders("tmp"); err != nil {
		files.Close()
		return failed(err)
	}
	return h, func() { files.Close() }, nil
}

// home opens the home a launch uses, and creates the workspace's artifacts folder in it.
func (r *Registry) home(l Launch) (Home, func(), error) {
	h, done, err := r.openHome(l)
	if err != nil || !plainName(l.WorkspaceID) {
		return h, done, err
	}
	h.artifacts = ArtifactsIn(l.WorkspaceID, l.Inside == nil, h.own)
	if err := h.files.Mkdir(h.artifacts); err != nil { // an agent may have put something else there: it has no folder then
		r.cfg.Log.Info("the artifacts folder could not be created", "workspace_id", l.WorkspaceID, "error", err)
		h.artifacts = ""
	}
	return h, done, nil
}

func (r *Registry) openHome(l Launch) (Home, func(), error) {
	in := l.Inside
	if in == nil {
		return r.homeHere(l.UserID)
	}
	h := Home{Dir: in.Home, temp: "/tmp", source: r.cfg.UserHome, files: in.Files, own: in.Own,
		exclusive: func() (func(), error) { return r.turns.Lock(in.Key), nil }}
	if err := h.makeFolders(); err != nil {
		return Home{}, nil, fault.Wrap(err, fault.Unavailable, "home_not_writable", "The private home of the agents could not be created: %v", err)
	}
	return h, func() {}, nil
}

// makeFolders creates the folders every home has.
func (h Home) makeFolders(more ...string) error {
	for _, d := range append([]string{claudeDir, codexDir}, more...) {
		if err := h.files.Mkdir(h.rel(d)); err != nil {
			return err
		}
	}
	return nil
}

// accountHome returns the home with the folder of an account, and creates the folder when it is missing. In a shared home of a
// sandbox, each account has its own folder.
func (r *Registry) accountHome(h Home, a Account, f facts, shared bool) (Home, error) {
	if a.ID == "" || a.InHome && !shared {
		return h, nil
	}
	if !plainName(a.ID) {
		return Home{}, fault.New(fault.Invalid, "invalid_account", "The account's id %q cannot name a folder.", a.ID)
	}
	h.account = a.ID
	if err := h.makeFolders(); err != nil {
		return Home{}, fault.Wrap(err, fault.Unavailable, "home_not_writable", "The private home of the agents could not be created: %v", err)
	}
	return h, h.share(f.shared)
}
