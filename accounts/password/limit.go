package password

import (
	"net/netip"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// How many failed logins are allowed: so many at once, then one more each so often. Nobody is ever locked out by what others
// do to their account: the narrow rule counts an account from one address.
var (
	pairRule   = rule{burst: 10, every: 30 * time.Second}       // one account from one address
	addrRule   = rule{burst: 50, every: 6 * time.Second}        // one address
	globalRule = rule{burst: 60, every: 100 * time.Millisecond} // everybody: under two seconds of hashing at once, a quarter of a core for long; addresses a user signed in from go on
	// Codes of a second factor are short: an attacker with the password and many addresses must not try them all. Three of a million are
	// right at any time, so that a day of trying finds one with a chance of 1 in 460. Devices of the user's own are counted apart.
	codeRule   = rule{burst: 20, every: 2 * time.Minute} // one account, from wherever
	forgotRule = rule{burst: 3, every: 20 * time.Minute} // mails with a link to choose a password, one user, whoever asks for them
	askRule    = rule{burst: 60, every: time.Second}     // challenges for passkeys and mails asked for, one address
)

type rule struct {
	burst int
	every time.Duration
}

// Limits counts failed logins in memory. A restart forgets them, which an attacker cannot cause.
type Limits struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket // per rule and key
	global  bucket
	good    map[string]time.Time // account and address of logins that succeeded
	swept   time.Time
}

// bucket is how much of a rule is used up, and when that was so.
type bucket struct {
	used float64
	at   time.Time
	rule rule
}

// NewLimits returns limits that nobody has used yet.
func NewLimits(now func() time.Time) *Limits {
	return &Limits{now: now, buckets: map[string]*bucket{}, good: map[string]time.Time{}, global: bucket{rule: globalRule}}
}

// level is what is used up at a time.
func (b *bucket) level(now time.Time) float64 {
	return max(0, b.used-float64(now.Sub(b.at))/float64(b.rule.every))
}

// wait is how long until one more is allowed; 0 = now.
func (b *bucket) wait(now time.Time) time.Duration {
	over := b.level(now) + 1 - float64(b.rule.burst)
	if over <= 0 {
		return 0
	}
	return time.Duration(over * float64(b.rule.every))
}

func (b *bucket) add(now time.Time, n float64) { b.used, b.at = max(0, b.level(now)+n), now }

// addressKey is the address whose failures are counted together: an IPv6 user has a whole /64.
func addressKey(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// From says where somebody tries to prove who they are.
type From struct {
	IP      string
	Device  string // that signed in to this account before, "" = none
	Session string // the login session, where there is one
}

// BeginFrom is Begin for an attempt that may come from a device of the user's own. Those are counted by device and by nothing else.
func (l *Limits) BeginFrom(account string, from From) error {
	if from.Device == "" {
		return l.Begin(account, from.IP)
	}
	return l.one("d"+account+"\x00"+from.Device, pairRule)
}

// SucceededFrom takes back what BeginFrom counted.
func (l *Limits) SucceededFrom(account string, from From) {
	l.mu.Lock()
	if from.Device != "" {
		delete(l.buckets, "d"+account+"\x00"+from.Device)
		l.good[account+"\x00"+addressKey(from.IP)] = l.now()
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.Succeeded(account, from.IP)
}

// BeginCode counts an attempt at a user's second factor; done takes it back.
func (l *Limits) BeginCode(userID string, from From) (done func(), err error) {
	key, r := "c"+userID, codeRule
	if own := from.Device + from.Session; own != "" {
		key, r = "c"+userID+"\x00"+own, pairRule
	}
	if err := l.one(key, r); err != nil {
		return nil, err
	}
	return func() { l.mu.Lock(); delete(l.buckets, key); l.mu.Unlock() }, nil
}

// BeginOwn counts an attempt at the signed-in user's password, by their session and nothing else: what strangers try does not keep them
// from it. done takes it back.
func (l *Limits) BeginOwn(userID, session string) (done func(), err error) {
	key := "s" + userID + "\x00" + session
	if err := l.one(key, pairRule); err != nil {
		return nil, err
	}
	return func() { l.mu.Lock(); delete(l.buckets, key); l.mu.Unlock() }, nil
}

// Ask counts something that costs us and that anybody may ask for.
func (l *Limits) Ask(ip string) error { return l.one("o"+addressKey(ip), askRule) }

// Forgot counts a mail with a link to choose a password to a user.
func (l *Limits) Forgot(userID string) error { return l.one("f"+userID, forgotRule) }

// one counts an attempt by one rule.
func (l *Limits) one(key string, r rule) error {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	if wait := l.waitFor(key, now); wait > 0 {
		return tooMany(wait)
	}
	l.bucket(key, r).add(now, 1)
	return nil
}

func tooMany(wait time.Duration) error {
	secs := int64(wait/time.Second) + 1
	return fault.New(fault.RateLimited, "too_many_attempts", "Too many failed attempts. Try again in %d seconds.", secs).
		With("retry_after_ms", secs*1000)
}

// Begin counts an attempt before it is tried, so that many at once cannot slip through; Succeeded takes it back.
func (l *Limits) Begin(account, ip string) error {
	now := l.now()
	addr := addressKey(ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	pair, any := "p"+account+"\x00"+addr, "a"+addr
	wait := l.waitFor(pair, now)
	if _, known := l.good[account+"\x00"+addr]; !known { // else what others do from there keeps nobody out
		wait = max(wait, l.waitFor(any, now), l.global.wait(now))
	}
	if wait > 0 {
		return tooMany(wait)
	}
	l.bucket(pair, pairRule).add(now, 1)
	l.bucket(any, addrRule).add(now, 1)
	l.global.add(now, 1)
	return nil
}

// Succeeded takes back what Begin counted and forgets the account's failures from there.
func (l *Limits) Succeeded(account, ip string) {
	now := l.now()
	addr := addressKey(ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.buckets, "p"+account+"\x00"+addr)
	l.bucket("a"+addr, addrRule).add(now, -1)
	l.global.add(now, -1)
	l.good[account+"\x00"+addr] = now
}

// waitFor returns how long a key has to wait. It does not store a key that was not counted yet, so that refused attempts take no memory.
func (l *Limits) waitFor(key string, now time.Time) time.Duration {
	if b := l.buckets[key]; b != nil {
		return b.wait(now)
	}
	return 0
}

// bucket is that of a key, for counting.
func (l *Limits) bucket(key string, r rule) *bucket {
	b := l.buckets[key]
	if b == nil {
		b = &bucket{rule: r}
		l.buckets[key] = b
	}
	return b
}

// sweep forgets what has drained. The global rule bounds how fast buckets appear, so that this bounds the memory.
func (l *Limits) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	for k, b := range l.buckets {
		if b.level(now) == 0 {
			delete(l.buckets, k)
		}
	}
	for k, at := range l.good {
		if now.Sub(at) > 30*24*time.Hour {
			delete(l.good, k)
		}
	}
}

// Counted is how many counters of attempts are in memory.
func (l *Limits) Counted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.buckets)
}
