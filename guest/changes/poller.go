package changes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/parawork/parawork/guest"
)

// Config says where a Poller works. Only Root is required.
type Config struct {
	Root    string           // absolute path of the worktree
	GitDir  string           // the worktree's git directory; "" = found from Root/.git at first use and kept from then on
	Dir     string           // private folder for our own index copies, outside Root; "" = a temporary folder
	GitPath string           // git program; "" = found in PATH
	Now     func() time.Time // nil = time.Now
	Log     *slog.Logger     // nil = slog.Default
}

// Poller watches one worktree. All methods are safe for concurrent use.
type Poller struct{ cfg Config }

// New makes a Poller. It touches nothing until first used.
func New(cfg Config) *Poller { return &Poller{cfg: cfg} }

// Watch sends the changes against base to send until ctx ends or send fails: first what differs from version since (a Reset
// with everything when since is unknown, an empty set when nothing differs), then each difference as it appears. A large
// set comes in several records, all but the last with More. send is never called concurrently for one Watch, and a slow
// send delays only its own Watch.
func (p *Poller) Watch(ctx context.Context, base string, since uint64, send func(guest.ChangeSet) error) error {
	return errors.ErrUnsupported
}

// PollNow looks at once and answers the whole set as a Reset. When it does not fit one record, More is set and the rest
// comes by Watch.
func (p *Poller) PollNow(ctx context.Context, base string) (guest.ChangeSet, error) {
	return guest.ChangeSet{}, errors.ErrUnsupported
}

// Diff writes the unified diff of one path against the base.
func (p *Poller) Diff(ctx context.Context, req guest.DiffRequest, w io.Writer) error {
	return errors.ErrUnsupported
}

// Hint says that something may have changed (output flows, a file was written through us): look soon.
func (p *Poller) Hint() {}

// Close removes the temporary folder, if one was made.
func (p *Poller) Close() error { return nil }
