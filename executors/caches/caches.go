// Package caches shares what the workspaces of one team download and build, in isolated sandboxes, and never across teams. It mounts the
// folders in new sandboxes, measures them, and empties those that grew too large while nobody of the team uses them. It does not know which
// sandboxes live: its Config does.
//
// Goroutines: it starts none; the caller runs Caches.Run. It takes no locks.
package caches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// insideCaches is where the team's caches lie in every isolated sandbox.
const insideCaches = "/var/cache/parawork"

// sharedTools are the tools whose downloads and builds a team shares, by the environment variable that names the folder.
var sharedTools = []struct{ name, variable string }{
	{"go-mod", "GOMODCACHE"}, {"go-build", "GOCACHE"}, {"npm", "npm_config_cache"}, {"pip", "PIP_CACHE_DIR"},
}

// firstTeamGroup is the id before that of the first team's group: outside the ranges used by systems, people and workspaces' users.
const firstTeamGroup = 600_000_000

// Config configures Caches.
type Config struct {
	Dir   string                                                      // absolute: holds a folder for each team (data/caches)
	Max   int64                                                       // limit per team; 0 = unlimited
	Chown bool                                                        // the server is root: a team shares through a group of its own
	Group func(ctx context.Context, teamID string) (int64, error)     // the number of a team's group; needed with Chown
	Share func(ctx context.Context, workspaceID string) (bool, error) // whether a workspace takes part; nil = all do
	InUse func(ctx context.Context, teamID string) (bool, error)      // whether a sandbox of the team lives
	Every time.Duration                                               // how often oversized caches are trimmed; default 10 min
	After func(time.Duration) <-chan time.Time                        // default time.After
	Log   *slog.Logger
}

// Caches are what the workspaces of a team share of downloads and builds, in isolated sandboxes, and never across teams. Whoever works in a
// team can put files there that the others then use: team members trust one another with that. Agents write all of it: the host measures and
// removes it, and reads none of it.
type Caches struct{ cfg Config }

// New makes Caches. It starts nothing.
func New(cfg Config) *Caches {
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Minute
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Caches{cfg: cfg}
}

// Size is the size of one cache of a team.
type Size struct {
	Name  string
	Bytes int64
}

// Outfit mounts a team's caches in an isolated sandbox; for Participant.Making.
func (c *Caches) Outfit(ctx context.Context, caps executors.Capabilities, s *executors.Spec) error {
	if !caps.Isolated || caps.OwnDisk || !plainName(s.TeamID) { // another machine cannot mount a folder of this one
		return nil
	}
	if c.cfg.Share != nil {
		if ok, err := c.cfg.Share(ctx, s.WorkspaceID); err != nil || !ok {
			return err
		}
	}
	gid := -1
	if c.cfg.Chown {
		n, err := c.cfg.Group(ctx, s.TeamID)
		if err != nil {
			return fmt.Errorf("finding the group of a team's caches: %w", err)
		}
		gid = firstTeamGroup + int(n)
	}
	env := make(map[string]string, len(s.Env)+len(sharedTools))
	maps.Copy(env, s.Env)
	for _, t := range sharedTools {
		dir := filepath.Join(c.cfg.Dir, s.TeamID, t.name)
		if err := c.prepare(dir, gid); err != nil {
			// Without a cache work is slower, not impossible.
			c.cfg.Log.Warn("a team's cache cannot be shared", "team_id", s.TeamID, "cache", t.name, "error", err)
			continue
		}
		inside := insideCaches + "/" + t.name
		s.Caches = append(s.Caches, executors.Mount{Source: dir, Target: inside})
		if _, set := env[t.variable]; !set {
			env[t.variable] = inside
		}
	}
	if s.Env = env; gid >= 0 {
		s.Groups = append(s.Groups, gid)
	}
	return nil
}

// prepare makes one cache's folder. The folders above belong to the server. A default access list lets the team's group write all that is
// made in the folder, whatever the umask of the process that made it.
func (c *Caches) prepare(dir string, gid int) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if gid < 0 {
		return nil
	}
	if err := os.Lchown(dir, -1, gid); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o770|os.ModeSetgid); err != nil {
		return err
	}
	return shareBelow(dir)
}

// plainName keeps anything but an id from becoming a path.
func plainName(id string) bool {
	return id != "" && !strings.ContainsAny(id, "/\x00") && !strings.HasPrefix(id, ".")
}

// Sizes measures a team's caches.
func (c *Caches) Sizes(ctx context.Context, teamID string) ([]Size, error) {
	out := make([]Size, 0, len(sharedTools))
	for _, t := range sharedTools {
		out = append(out, Size{t.name, c.size(ctx, teamID, t.name)})
	}
	return out, ctx.Err()
}

// size adds up the files of one cache. It does not follow links, and counts what it cannot read as nothing.
func (c *Caches) size(ctx context.Context, teamID, name string) (n int64) {
	if !plainName(teamID) {
		return 0
	}
	root, err := os.OpenRoot(filepath.Join(c.cfg.Dir, teamID, name))
	if err != nil {
		return 0
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// Max returns the limit of one team's caches, 0 = unlimited.
func (c *Caches) Max() int64 { return c.cfg.Max }

// Empty removes what is in a team's caches. Live sandboxes keep their folders, empty.
func (c *Caches) Empty(ctx context.Context, teamID string) error {
	if !plainName(teamID) {
		return nil
	}
	for _, t := range sharedTools {
		if err := c.empty(ctx, teamID, t.name); err != nil {
			return fault.Wrap(err, fault.Unavailable, "caches_not_emptied", "The cache %s could not be emptied completely. Try again.", t.name)
		}
	}
	return nil
}

// empty removes everything in one cache, but not its folder, which sandboxes may have mounted.
func (c *Caches) empty(ctx context.Context, teamID, name string) error {
	root, err := os.OpenRoot(filepath.Join(c.cfg.Dir, teamID, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := root.RemoveAll(e.Name()); err != nil {
			openUp(root, e.Name()) // Go's module cache is read-only, for its owner too
			err = root.RemoveAll(e.Name())
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// openUp makes folders writable for their owner.
func openUp(root *os.Root, name string) {
	_ = fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(p, 0o700)
		}
		return nil
	})
}

// Run trims oversized caches until ctx ends.
func (c *Caches) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.cfg.After(c.cfg.Every):
			c.Trim(ctx)
		}
	}
}

// Trim empties the oversized caches of teams without a live sandbox, the least recently used first.
func (c *Caches) Trim(ctx context.Context) {
	if c.cfg.Max <= 0 {
		return
	}
	teams, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return // nobody has any
	}
	for _, t := range teams {
		if !t.IsDir() || ctx.Err() != nil {
			continue
		}
		if err := c.trim(ctx, t.Name()); err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("a team's caches could not be trimmed", "team_id", t.Name(), "error", err)
		}
	}
}

func (c *Caches) trim(ctx context.Context, teamID string) error {
	sizes, err := c.Sizes(ctx, teamID)
	if err != nil {
		return err
	}
	var all int64
	for _, s := range sizes {
		all += s.Bytes
	}
	if all <= c.cfg.Max {
		return nil
	}
	if c.cfg.InUse != nil {
		if used, err := c.cfg.InUse(ctx, teamID); err != nil || used {
			return err
		}
	}
	slices.SortFunc(sizes, func(a, b Size) int { return c.usedAt(teamID, a.Name).Compare(c.usedAt(teamID, b.Name)) })
	for _, s := range sizes {
		if all <= c.cfg.Max {
			break
		}
		if err := c.empty(ctx, teamID, s.Name); err != nil {
			return err
		}
		all -= s.Bytes
		c.cfg.Log.Info("a team's cache was emptied because its caches had grown too large", "team_id", teamID, "cache", s.Name, "bytes", s.Bytes)
	}
	return nil
}

// usedAt returns when something was last added to a cache, going by its top folder.
func (c *Caches) usedAt(teamID, name string) time.Time {
	info, err := os.Lstat(filepath.Join(c.cfg.Dir, teamID, name))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
