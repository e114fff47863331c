package notify_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/store/storetest"
)

// browser is a browser and its push service in one: it takes only what a real pair would take, and reads it.
type browser struct {
	*httptest.Server
	t         *testing.T
	key       *ecdh.PrivateKey
	auth      []byte
	serverKey string // what it subscribed with

	mu     sync.Mutex
	got    []map[string]any
	status int
	faults []error
}

func newBrowser(t *testing.T, serverKey string) *browser {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, key: key, auth: make([]byte, 16), serverKey: serverKey, status: http.StatusCreated}
	rand.Read(b.auth)
	b.Server = httptest.NewServer(http.HandlerFunc(b.take))
	t.Cleanup(b.Close)
	return b
}

func (b *browser) subscription(userID string) notify.Subscription {
	return notify.Subscription{UserID: userID, Endpoint: b.URL + "/push/abc", P256dh: base64.RawURLEncoding.EncodeToString(b.key.PublicKey().Bytes()),
		Auth: base64.RawURLEncoding.EncodeToString(b.auth), Label: "Firefox on Linux"}
}

func (b *browser) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var plain []byte
	if err == nil {
		err = b.signed(r)
	}
	if err == nil {
		plain, err = b.open(r, body)
	}
	var m map[string]any
	if err == nil {
		err = json.Unmarshal(plain, &m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.faults = append(b.faults, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.got = append(b.got, m)
	w.WriteHeader(b.status)
}

// signed checks the signature of RFC 8292: a JWT for this origin, not longer than a day, by the key the browser subscribed with.
func (b *browser) signed(r *http.Request) error {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "vapid t=")
	token, key, found := strings.Cut(rest, ", k=")
	if !ok || !found || strings.TrimRight(key, "=") != strings.TrimRight(b.serverKey, "=") {
		return errors.New("not signed with the key subscribed with: " + r.Header.Get("Authorization"))
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("no JWT")
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(key, "="))
	if err != nil {
		return err
	}
	x, y := elliptic.Unmarshal(elliptic.P256(), raw) //nolint:staticcheck // what ecdsa.Verify takes
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sig) != 64 || x == nil {
		return errors.New("no signature")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(&ecdsa.PublicKey{Curve: elliptic.P256(), X: x, Y: y}, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return errors.New("a wrong signature")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var c struct {
		Aud, Sub string
		Exp      int64
	}
	if err := json.Unmarshal(claims, &c); err != nil {
		return err
	}
	u, err := url.Parse(b.URL)
	if err != nil || c.Aud != u.Scheme+"://"+u.Host || c.Exp < time.Now().Unix() || c.Exp > time.Now().Add(24*time.Hour).Unix() ||
		!strings.HasPrefix(c.Sub, "mailto:") && !strings.HasPrefix(c.Sub, "https:") {
		return errors.New("claims " + string(claims))
	}
	if r.Header.Get("TTL") == "" || r.Header.Get("Content-Encoding") != "aes128gcm" {
		return errors.New("TTL or encoding missing")
	}
	return nil
}

// open decrypts RFC 8291 over RFC 8188.
func (b *browser) open(_ *http.Request, body []byte) ([]byte, error) {
	if len(body) < 21 || len(body) > 4096 {
		return nil, errors.New("a body of a wrong size")
	}
	salt, record, n := body[:16], binary.BigEndian.Uint32(body[16:20]), int(body[20])
	if record < 18 || len(body) < 21+n {
		return nil, errors.New("a wrong head")
	}
	theirs, err := ecdh.P256().NewPublicKey(body[21 : 21+n])
	if err != nil {
		return nil, err
	}
	secret, err := b.key.ECDH(theirs)
	if err != nil {
		return nil, err
	}
	info := "WebPush: info\x00" + string(b.key.PublicKey().Bytes()) + string(theirs.Bytes())
	ikm, err := hkdf.Key(sha256.New, secret, b.auth, info, 32)
	if err != nil {
		return nil, err
	}
	cek, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(cek)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, nonce, body[21+n:], nil)
	if err != nil {
		return nil, err
	}
	plain = []byte(strings.TrimRight(string(plain), "\x00"))
	if len(plain) == 0 || plain[len(plain)-1] != 2 {
		return nil, errors.New("no last record")
	}
	return plain[:len(plain)-1], nil
}

func (b *browser) messages() []map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, err := range b.faults {
		b.t.Error(err)
	}
	return append([]map[string]any(nil), b.got...)
}

func TestPushReachesWhoWantsIt(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *harness) {
		key, err := h.PushKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := newBrowser(t, key)
		sub, err := h.Subscribe(t.Context(), b.subscription(h.user.ID))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.TestPush(t.Context(), h.user.ID, sub.ID); err != nil {
			t.Fatal(err)
		}
		if m := b.messages(); len(m) != 1 || m[0]["path"] != "/" {
			t.Fatalf("the test brought %v", m)
		}
		h.build() // the key outlives the server
		if again, err := h.PushKey(t.Context()); err != nil || again != key {
			t.Fatalf("another key after a restart: %v", err)
		}
		h.run()
		mine := notify.Item{ID: "qst_1", Kind: notify.Question, QuestionTitle: "Allow?", Owners: []string{h.user.ID}}
		others := notify.Item{ID: "qst_2", Kind: notify.Question, Owners: []string{"usr_other"}}
		done := notify.Item{ID: "ses_1", Kind: notify.Finished, Owners: []string{h.user.ID}}
		h.put(mine, others, done)
		eventually(t, "my question arrives", func() bool { h.advance(time.Millisecond); return len(b.messages()) == 2 })
		if m := b.messages()[1]; m["title"] != "Claude Code asks: Allow?" || m["path"] != "/harbour/w/PW-1?session=ses_1" || m["tag"] != "ws_1" || m["item"] != "qst_1" {
			t.Errorf("got %v", m)
		}
		if _, err := h.SetRules(t.Context(), h.user.ID, notify.Rules{notify.Finished: notify.All}); err != nil {
			t.Fatal(err)
		}
		h.put(mine, others, done, notify.Item{ID: "ses_2", Kind: notify.Finished})
		eventually(t, "what is wanted now arrives", func() bool { return len(b.messages()) == 3 })
		if m := b.messages()[2]; m["item"] != "ses_2" {
			t.Errorf("got %v", m)
		}
		// A browser that took its subscription back is forgotten.
		b.mu.Lock()
		b.status = http.StatusGone
		b.mu.Unlock()
		h.put(notify.Item{ID: "ses_3", Kind: notify.Finished})
		eventually(t, "the browser is forgotten", func() bool { all, err := h.Subscriptions(t.Context(), h.user.ID); return err == nil && len(all) == 0 })
	})
}

// A question somebody has answered before the message left disturbs nobody.
func TestPushSaysNothingOfWhatIsSettled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	key, err := h.PushKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, key)
	if _, err := h.Subscribe(t.Context(), b.subscription(h.user.ID)); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	w, _ := h.hook(r.URL, notify.WebhookChange{})
	// A server that stops before it read the receiver's answer sends the message again: what counts is that the answer was read.
	delivered := func(n int) bool {
		all := h.deliveries(w)
		return len(all) == n && !slices.ContainsFunc(all, func(d notify.Delivery) bool { return d.State != notify.Delivered })
	}
	stop := h.run() // the clock does not advance, so the push message is not due yet
	h.put(notify.Item{ID: "qst_1", Kind: notify.Question, Owners: []string{h.user.ID}})
	eventually(t, "the item was noted", func() bool { return delivered(1) })
	stop()
	h.put()
	h.advance(time.Minute)
	h.build()
	h.run()
	h.put(notify.Item{ID: "qst_2", Kind: notify.Question, Owners: []string{h.user.ID}})
	eventually(t, "the next item was noted", func() bool { return delivered(2) })
	h.advance(time.Minute)
	h.put(notify.Item{ID: "qst_2", Kind: notify.Question, Owners: []string{h.user.ID}}, notify.Item{ID: "x", Kind: notify.Stuck, Owners: []string{h.user.ID}})
	eventually(t, "only what is open arrives", func() bool { return len(b.messages()) == 2 })
	for _, m := range b.messages() {
		if m["item"] == "qst_1" {
			t.Error("a settled question was sent")
		}
	}
}

func TestBadSubscriptionsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	good := newBrowser(t, "").subscription(h.user.ID)
	for name, tc := range map[string]struct {
		change func(*notify.Subscription)
		code   string
	}{
		"inside":       {func(s *notify.Subscription) { s.Endpoint = "https://192.168.1.1/push" }, "url_not_public"},
		"no point":     {func(s *notify.Subscription) { s.P256dh = base64.RawURLEncoding.EncodeToString(make([]byte, 65)) }, "invalid_subscription"},
		"not base64":   {func(s *notify.Subscription) { s.P256dh = "***" }, "invalid_subscription"},
		"short secret": {func(s *notify.Subscription) { s.Auth = "AAAA" }, "invalid_subscription"},
	} {
		s := good
		tc.change(&s)
		if _, err := h.Subscribe(t.Context(), s); fault.CodeOf(err) != tc.code {
			t.Errorf("%s: got %v, want %s", name, err, tc.code)
		}
	}
	if _, err := h.SetRules(t.Context(), h.user.ID, notify.Rules{"weather": notify.All}); fault.CodeOf(err) != "invalid_rule" {
		t.Errorf("got %v", err)
	}
	sub, err := h.Subscribe(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unsubscribe(t.Context(), "usr_other", sub.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("somebody else's browser was forgotten: %v", err)
	}
}
