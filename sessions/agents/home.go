package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/fault"
)

// Home is the private home of one user's agents and shells. Agents may write in it too, so nothing in it is believed.
type Home struct {
	Dir       string
	account   string // whose folder the agent's own files lie in, "" = the home itself
	worktrees string // trusted as a whole
	source    string // home of the server's own user
}

func (h Home) tmp() string    { return filepath.Join(h.Dir, "tmp") }
func (h Home) claude() string { return filepath.Join(h.state(), ".claude") }
func (h Home) codex() string  { return filepath.Join(h.state(), ".codex") }

// accountsDir holds the folders of accounts, below a home.
const accountsDir = ".accounts"

// state is what the agent takes for the folder its own files lie in: one an account, so that two logins lie side by side.
func (h Home) state() string {
	if h.account == "" {
		return h.Dir
	}
	return filepath.Join(h.Dir, accountsDir, h.account)
}

// base is the home without an account: where what all accounts share lies.
func (h Home) base() Home {
	h.account = ""
	return h
}

// share makes folders below the account's folder lead to those of the home itself. What is there already stays.
func (h Home) share(dirs []string) error {
	if h.account == "" {
		return nil
	}
	for _, dir := range dirs {
		real, link := filepath.Join(h.Dir, dir), filepath.Join(h.state(), dir)
		to, err := filepath.Rel(filepath.Dir(link), real)
		err = errors.Join(err, os.MkdirAll(real, 0o700), os.MkdirAll(filepath.Dir(link), 0o700))
		if err == nil {
			if err = os.Symlink(to, link); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("sharing %s between accounts: %w", dir, err)
		}
	}
	return nil
}

// env is what every process of a session gets. The agents' folders are named even for a shell, so that an agent started there
// by hand finds the same login.
func (h Home) env(l Launch) map[string]string {
	env := map[string]string{
		"HOME":                  h.Dir,
		"TMPDIR":                h.tmp(),
		"TERM":                  "xterm-256color",
		"COLORTERM":             "truecolor",
		"CLAUDE_CONFIG_DIR":     h.base().claude(),
		"CODEX_HOME":            h.base().codex(),
		"PARAWORK_SESSION_ID":   l.SessionID,
		"PARAWORK_WORKSPACE_ID": l.WorkspaceID,
	}
	if runtime.GOOS == "linux" {
		env["LC_CTYPE"] = "C.UTF-8" // a server started by init has no locale, and the agents draw with Unicode
	}
	if l.UserName != "" && l.UserEmail != "" {
		env["GIT_AUTHOR_NAME"], env["GIT_AUTHOR_EMAIL"] = l.UserName, l.UserEmail
		env["GIT_COMMITTER_NAME"], env["GIT_COMMITTER_EMAIL"] = l.UserName, l.UserEmail
	}
	return env
}

// maxPreset bounds a file of presets or a login that is read.
const maxPreset = 8 << 20

// errNotPlain says that something else than a regular file lies where one is expected.
var errNotPlain = errors.New("not a regular file")

// editJSON reads the object in path, lets edit change it, and writes it back: atomically, mode 0600, under a lock that other
// servers on the same data folder honour. A file that is no JSON object is kept beside it and begun anew; a link or a pipe is
// replaced.
func (h Home) editJSON(path string, edit func(map[string]any)) error {
	unlock, err := h.lock(path)
	if err != nil {
		return err
	}
	defer unlock()
	doc := map[string]any{}
	raw, err := readPlain(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotPlain):
	case err != nil:
		return err
	default:
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if dec.Decode(&doc) != nil || doc == nil {
			doc = map[string]any{}
			if err := writePlain(path+".unreadable", raw); err != nil {
				return err
			}
		}
	}
	edit(doc)
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	if bytes.Equal(out, raw) {
		return nil
	}
	return writePlain(path, out)
}

// object returns doc[key] as an object, making it when it is not one.
func object(doc map[string]any, key string) map[string]any {
	if o, ok := doc[key].(map[string]any); ok {
		return o
	}
	o := map[string]any{}
	doc[key] = o
	return o
}

// lock takes the lock of a file of this home for this process and others. It lies outside the home, where no agent finds it.
func (h Home) lock(path string) (unlock func(), err error) {
	dir := filepath.Join(filepath.Dir(h.Dir), ".locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, filepath.Base(h.Dir)+"."+filepath.Base(path)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Since(start) > 5*time.Second {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
	}
}

// readPlain reads a regular file and nothing else: no pipe that never ends, no link somebody left there.
func readPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s: %w", path, errNotPlain)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, errNotPlain)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxPreset+1))
	if err == nil && len(raw) > maxPreset {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxPreset)
	}
	return raw, err
}

// readHead reads the first bytes of a regular file.
func readHead(path string, n int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// makeAll makes a folder below the account's.
func (h Home) makeAll(dir string) error {
	if err := os.MkdirAll(filepath.Join(h.state(), dir), 0o700); err != nil {
		return fmt.Errorf("preparing the agent's folder: %w", err)
	}
	return nil
}

// writePlain replaces path by a file with these bytes and mode 0600; a link in its place is replaced, not followed.
func writePlain(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".parawork-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// copyLogin copies the login of the server's own user, when it is newer than the copy: the agent renews its copy itself. A
// marker beside it tells a copy from a login made in the terminal.
func (h Home) copyLogin(agent, from, to string) error {
	src := filepath.Join(h.source, from)
	st, err := os.Stat(src)
	if h.source == "" || err != nil {
		return fault.New(fault.Conflict, "existing_login_missing",
			"There is no login of %s to copy: ~/%s does not exist for the server's own user. Log in there first, or choose another account.", agent, from)
	}
	dst := filepath.Join(h.state(), to)
	if have, err := os.Lstat(dst); err == nil && have.Mode().IsRegular() && !st.ModTime().After(have.ModTime()) {
		return nil
	}
	// The server's own user may keep the file behind a link of its own.
	if src, err = filepath.EvalSymlinks(src); err != nil {
		return fmt.Errorf("reading the login of %s: %w", agent, err)
	}
	raw, err := readPlain(src)
	if err != nil {
		return fmt.Errorf("reading the login of %s: %w", agent, err)
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
		return fmt.Errorf("copying the login of %s: %w", agent, err)
	}
	if err := writePlain(dst, raw); err != nil {
		return err
	}
	return writePlain(dst+".copied", []byte("copied by Parawork\n"))
}

// dropLogin removes a login that copyLogin made: the person chose another account since.
func (h Home) dropLogin(to string) error {
	dst := filepath.Join(h.state(), to)
	if _, err := os.Lstat(dst + ".copied"); err != nil {
		return nil
	}
	if err := os.Remove(dst); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a copied login: %w", err)
	}
	if err := os.Remove(dst + ".copied"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a copied login: %w", err)
	}
	return nil
}

// login brings the copied login in line with the account.
func (h Home) login(a Account, agent, from, to string) error {
	if a.Kind == ExistingLogin {
		return h.copyLogin(agent, from, to)
	}
	return h.dropLogin(to)
}
