// Package password makes and checks the hashes of passwords, refuses weak passwords, limits attempts to authenticate, and makes the random
// values that identify somebody afterwards: cookies, tokens and links, which are stored as digests.
//
// It has no notion of users. Hasher and Limits are safe for concurrent use. An instance needs exactly one of each, since separate counters
// would not limit anything. A Hasher owns a timer, which frees memory when no hash was made for a second; Limits holds its own lock briefly.
package password

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/parawork/parawork/internal/fault"
)

// Cost is what one hash takes.
type Cost struct {
	Memory uint32 // KiB
	Time   uint32 // passes over the memory
}

// What a password is hashed with: OWASP's smallest for argon2id, some 25 ms.
const (
	argonMemory  = 19 * 1024 // KiB
	argonTime    = 2
	argonThreads = 1
	saltBytes    = 16
	hashBytes    = 32
)

// Bounds of a password.
const (
	Min = 10   // characters
	Max = 1024 // bytes
)

// parallelHashes bounds the memory that hashing takes: each holds argonMemory. One processor stays free of it where there is another, so
// that guessing passwords slows nobody's terminal.
const parallelHashes = 4

func hashSeats() int { return min(parallelHashes, max(1, runtime.GOMAXPROCS(0)-1)) }

// ErrOff is the answer where the instance takes no passwords.
var ErrOff = fault.New(fault.Forbidden, "password_off", "This server takes no passwords. Sign in in another way that its sign-in page offers.")

// Hasher makes and checks password hashes, a few at once.
type Hasher struct {
	seats chan struct{}
	rand  io.Reader
	cost  Cost
	calm  *time.Timer // rings when no hash was made for a while
}

// calmAfter is how long after the last hash its memory is given back. What one hash holds is as much as a server at rest needs
// for everything else, and the collector would keep it for minutes.
const calmAfter = time.Second

// NewHasher returns a hasher that takes salts from r.
func NewHasher(r io.Reader) *Hasher {
	return NewHasherAt(r, Cost{Memory: argonMemory, Time: argonTime})
}

// NewHasherAt is NewHasher at another cost: tests that hash many passwords need none that is hard to guess.
func NewHasherAt(r io.Reader, cost Cost) *Hasher {
	calm := time.AfterFunc(time.Hour, debug.FreeOSMemory)
	calm.Stop()
	return &Hasher{make(chan struct{}, hashSeats()), r, cost, calm}
}

// rise leaves a seat.
func (h *Hasher) rise() {
	<-h.seats
	h.calm.Reset(calmAfter)
}

func (h *Hasher) sit(ctx context.Context) error {
	select {
	case h.seats <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Hash returns the PHC string of a password.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(h.rand, salt); err != nil {
		return "", fmt.Errorf("making a salt: %w", err)
	}
	if err := h.sit(ctx); err != nil {
		return "", err
	}
	defer h.rise()
	sum := argon2.IDKey([]byte(password), salt, h.cost.Time, h.cost.Memory, argonThreads, hashBytes)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.cost.Memory, h.cost.Time, argonThreads,
		b64.EncodeToString(salt), b64.EncodeToString(sum)), nil
}

// nobody is the hash of no password, checked when there is no user, so that both take the same time.
const nobody = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm9ibw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// Check reports whether password is the one behind phc, and whether phc was made with other figures than today's. A phc that
// cannot be read is nobody's, after the usual time.
func (h *Hasher) Check(ctx context.Context, phc, password string) (ok, stale bool, err error) {
	p, readable := parsePHC(phc)
	if !readable {
		p, _ = parsePHC(nobody)
		p.memory, p.time = h.cost.Memory, h.cost.Time
	}
	if len(password) > Max {
		password = "" // too long to be anybody's, and too long to be worth hashing
		readable = false
	}
	if err := h.sit(ctx); err != nil {
		return false, false, err
	}
	defer h.rise()
	sum := argon2.IDKey([]byte(password), p.salt, p.time, p.memory, p.threads, uint32(len(p.sum)))
	same := subtle.ConstantTimeCompare(sum, p.sum) == 1
	stale = p.memory != h.cost.Memory || p.time != h.cost.Time || p.threads != argonThreads
	return same && readable, stale, nil
}

// Usable reports whether a user's password hash is one that a password can match.
func Usable(hash string) bool {
	_, ok := parsePHC(hash)
	return ok
}

type phc struct {
	memory, time uint32
	threads      uint8
	salt, sum    []byte
}

func parsePHC(s string) (phc, bool) {
	var p phc
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, false
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.time, &p.threads); n != 3 || err != nil {
		return p, false
	}
	var err1, err2 error
	p.salt, err1 = base64.RawStdEncoding.DecodeString(parts[4])
	p.sum, err2 = base64.RawStdEncoding.DecodeString(parts[5])
	sane := p.memory >= 8 && p.memory <= 1<<20 && p.time >= 1 && p.time <= 16 && p.threads >= 1
	return p, err1 == nil && err2 == nil && sane && len(p.salt) >= 8 && len(p.sum) >= 16
}

// CheckNew refuses passwords that are too short, too long, leaked, or easy to guess for somebody who knows the user: about are the user's
// name and the names of their teams. details.reason says which.
func CheckNew(password, email string, about ...string) error {
	bad := func(reason, format string, args ...any) error {
		return fault.New(fault.Invalid, "weak_password", format, args...).With("reason", reason)
	}
	lower := strings.ToLower(password)
	distinct := map[rune]bool{}
	for _, r := range lower {
		distinct[r] = true
	}
	local, _, _ := strings.Cut(email, "@")
	switch {
	case len(password) > Max:
		return bad("long", "The password is longer than %d bytes. Choose a shorter one.", Max)
	case utf8.RuneCountInString(password) < Min:
		return bad("short", "The password needs at least %d characters. A few words in a row are easy to remember.", Min)
	case len(distinct) < 4:
		return bad("few_characters", "The password has too few different characters. Choose another one.")
	case lower == email || lower == local:
		return bad("personal", "The password is your e-mail address. Choose another one.")
	case isLeaked(lower):
		return bad("leaked", "The password, or one that differs in its last signs only, is in lists of leaked passwords, which are tried first. Choose another one.")
	case isCommon(lower, nil):
		return bad("common", "The password is made of one or two of the most used words, of keys side by side or of years, and is tried early. Choose another one.")
	case isCommon(lower, ownWords(append(about, email))):
		return bad("personal", "The password is made of your name, your e-mail address or your team, which is easy to guess. Choose another one.")
	}
	return nil
}
