package masks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Placed is a file written for a session.
type Placed struct {
	Home bool   `json:"home,omitempty"` // Path is below the home, otherwise below the worktree
	Path string `json:"path"`
	Sum  string `json:"sum"` // sha256 in hex of the contents

	Blob    string `json:"blob,omitempty"`    // git's object ID of it, in a SHA-1 repository
	Blob256 string `json:"blob256,omitempty"` // likewise, in a SHA-256 repository
}

// Placement is where the files of one session go.
type Placement struct {
	masks  *Masks
	place  *executors.Place
	inside bool // the home is the sandbox's own
	user   string
}

// Placement returns where the files of a session of user go that runs in a sandbox; inside: its home is the sandbox's own.
func (m *Masks) Placement(place *executors.Place, inside bool, user string) Placement {
	return Placement{masks: m, place: place, inside: inside, user: user}
}

// Plan returns which files will be written.
func (p Placement) Plan(files []secrets.PlacedFile) (out []Placed, skipped bool) {
	for _, f := range files {
		if f.Home && p.place.SharedHome { // a person's own home: replace nothing of theirs
			skipped = true
			continue
		}
		one := Placed{Home: f.Home, Path: f.Path, Sum: sumOf([]byte(f.Value))}
		if f.Value != "" { // all empty files have the same hash
			one.Blob, one.Blob256 = snapshot.BlobNames([]byte(f.Value))
		}
		out = append(out, one)
	}
	return out, skipped
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// filesHome opens the home the files are written to.
func (p Placement) filesHome(ctx context.Context) (agents.Files, func(), error) {
	if p.inside {
		return p.place.Guest.Home(ctx), func() {}, nil
	}
	dir, ok := p.masks.cfg.Homes.HomeHere(p.user)
	if !ok {
		return nil, nil, fault.New(fault.Unavailable, "home_missing", "There is no home to write the files of secrets into.")
	}
	d, err := homedir.Open(filepath.Clean(dir))
	if err != nil {
		return nil, nil, err
	}
	return d, func() { d.Close() }, nil
}

// key identifies a Placed file globally.
func (p Placement) key(f Placed) string {
	where := p.place.SandboxID
	if f.Home && !p.inside {
		where = "home of " + p.user
	}
	return where + "\x00" + strconv.FormatBool(f.Home) + "\x00" + f.Path
}

// put writes the files of secrets. It first excludes those in the worktree from git.
func (p Placement) put(ctx context.Context, workspaceID string, files []secrets.PlacedFile, plan []Placed) error {
	var inTree []string
	for _, f := range plan {
		if !f.Home {
			inTree = append(inTree, f.Path)
		}
	}
	if len(inTree) > 0 {
		if p.masks.cfg.Exclude != nil {
			if err := p.masks.cfg.Exclude(ctx, workspaceID, inTree); err != nil {
				return err
			}
		}
		for _, name := range inTree {
			if err := p.keepOut(ctx, name); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		if f.Home && p.place.SharedHome {
			continue
		}
		if err := p.write(ctx, f); err != nil {
			return fault.Wrap(err, fault.Conflict, "secret_file_not_placed", "The file %s of a secret could not be written: %s", path.Base(f.Path), fault.Words(err, "the sandbox did not answer")).With("path", f.Path)
		}
	}
	return nil
}

func (p Placement) write(ctx context.Context, f secrets.PlacedFile) error {
	if !f.Home {
		if there, err := p.place.Guest.Stat(ctx, f.Path); err == nil && there.Type == "symlink" {
			// A write would follow the link, perhaps to a file that is part of the repository, and everybody could read the value
			// in its changes.
			return fault.New(fault.Conflict, "secret_file_not_placed", "There is a link with this name. Remove it, or choose another path for the secret.")
		}
		_, err := p.place.Guest.WriteFile(ctx, f.Path, strings.NewReader(f.Value), client.WriteOptions{Mode: 0o600})
		return err
	}
	home, done, err := p.filesHome(ctx)
	if err != nil {
		return err
	}
	defer done()
	if dir := path.Dir(f.Path); dir != "." {
		if err := home.Mkdir(dir); err != nil {
			return err
		}
	}
	return home.WriteFile(f.Path, []byte(f.Value))
}

// keepOutScript excludes a file from git where git does not track it yet: 10 = it is part of the repository, 11 = git does not
// ignore it.
const keepOutScript = `command -v git >/dev/null 2>&1 && git rev-parse --git-dir >/dev/null 2>&1 || exit 0
if git ls-files --error-unmatch -- ":(top,literal)$1" >/dev/null 2>&1; then exit 10; fi
git check-ignore -q -- "$1" && exit 0
e=$(git rev-parse --git-path info/exclude) && mkdir -p "$(dirname "$e")" && printf '\n%s\n' "$2" >>"$e"
git check-ignore -q -- "$1" || exit 11`

// keepOut excludes a file of the worktree from git.
func (p Placement) keepOut(ctx context.Context, name string) error {
	res, err := p.place.Run(ctx, executors.SandboxCommand{Argv: []string{"/bin/sh", "-c", keepOutScript, "sh", name, git.ExcludePattern(name)},
		Env: map[string]string{"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false",
			"GIT_CONFIG_KEY_1": "core.hooksPath", "GIT_CONFIG_VALUE_1": "/dev/null"}})
	switch {
	case err != nil:
		return fmt.Errorf("excluding a file from git: %w", err)
	case res.ExitCode == 10:
		return fault.New(fault.Conflict, "secret_file_tracked",
			"The file %s of a secret is part of the repository on this branch, and would be committed. Choose another path for it, or remove the file from git.", name).With("path", name)
	case res.ExitCode != 0:
		return fault.New(fault.Conflict, "secret_file_not_ignored", "The file %s of a secret was not written: git does not ignore it. Add it to .gitignore, or choose another path.", name).With("path", name)
	}
	return nil
}

// count records that a session uses files, or no longer does; it returns those that no session uses any more.
func (m *Masks) count(p Placement, files []Placed, by int) (free []Placed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range files {
		k := p.key(f)
		if m.placed[k] += by; m.placed[k] <= 0 {
			delete(m.placed, k)
			free = append(free, f)
		}
	}
	return free
}

// lockKey is the lock under which the files of one session are written and removed.
func (p Placement) lockKey() string {
	if !p.inside {
		return "home of " + p.user
	}
	return p.place.SandboxID
}

// Place writes the files of secrets for a session that is about to start.
func (m *Masks) Place(ctx context.Context, to Placement, workspaceID string, files []secrets.PlacedFile, plan []Placed) error {
	if len(plan) == 0 {
		return nil
	}
	for _, key := range []string{to.lockKey(), treeKey(workspaceID)} {
		defer m.placers.Lock(key)()
	}
	m.count(to, plan, 1)
	return to.put(ctx, workspaceID, files, plan)
}

// treeKey is the lock under which the files of a workspace are written, and removed where its sandbox is gone.
func treeKey(workspaceID string) string { return "files of " + workspaceID }

// clearTime bounds how long the server tries to remove the files of an ended session.
const clearTime = 30 * time.Second

// clear removes the files of an ended session that no other session in the same sandbox uses, unless somebody changed them.
func (m *Masks) clear(ctx context.Context, p Placement, files []Placed) {
	defer m.placers.Lock(p.lockKey())()
	var left []Placed
	for _, f := range m.count(p, files, -1) {
		err := p.remove(ctx, f)
		if err == nil || fault.Is(err, fault.NotFound) {
			continue
		}
		m.cfg.Log.Warn("a file of a secret could not be removed", "workspace_id", p.place.WorkspaceID, "error", err)
		if !f.Home || p.inside { // its sandbox may be ending
			left = append(left, f)
		}
	}
	m.clearHere(ctx, p, left)
}

func (p Placement) remove(ctx context.Context, f Placed) error {
	if !f.Home {
		body, info, err := p.place.Guest.ReadFile(ctx, f.Path)
		if err != nil {
			return err
		}
		defer body.Close()
		if info.Hash != f.Sum {
			return nil
		}
		return p.place.Guest.RemoveFile(ctx, f.Path)
	}
	home, done, err := p.filesHome(ctx)
	if err != nil {
		return err
	}
	defer done()
	b, err := home.ReadFile(f.Path)
	if err != nil {
		if isNotThere(err) {
			return nil
		}
		return err
	}
	if sumOf(b) != f.Sum {
		return nil
	}
	return home.Remove(f.Path)
}

func isNotThere(err error) bool {
	return fault.Is(err, fault.NotFound) || errors.Is(err, fs.ErrNotExist)
}
