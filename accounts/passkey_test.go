package accounts_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
)

// device is an authenticator with one key on it, as a browser speaks to it.
type device struct {
	t      *testing.T
	origin string
	host   string
	uv     bool // it checks its user
	id     []byte
	key    *ecdsa.PrivateKey
	owner  []byte
	count  uint32
}

func newDevice(t *testing.T, uv bool) *device {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d := &device{t: t, origin: "https://parawork.example.com", host: "parawork.example.com", uv: uv, id: make([]byte, 32), key: key}
	rand.Read(d.id)
	return d
}

var site = signin.Site{Host: "parawork.example.com", Origin: "https://parawork.example.com"}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// authData is what an authenticator signs: WebAuthn level 3, section 6.1.
func (d *device) authData(more []byte) []byte {
	host := sha256.Sum256([]byte(d.host))
	flags := byte(0x01) // somebody is there
	if d.uv {
		flags |= 0x04
	}
	if more != nil {
		flags |= 0x40
	}
	d.count++
	return append(binary.BigEndian.AppendUint32(append(host[:], flags), d.count), more...)
}

func (d *device) clientData(kind string, options json.RawMessage) []byte {
	var o struct {
		Challenge string
		User      struct{ ID string }
	}
	if err := json.Unmarshal(options, &o); err != nil || o.Challenge == "" {
		d.t.Fatalf("options %s: %v", options, err)
	}
	if o.User.ID != "" {
		d.owner, _ = base64.RawURLEncoding.DecodeString(o.User.ID)
	}
	raw, _ := json.Marshal(map[string]any{"type": kind, "challenge": o.Challenge, "origin": d.origin, "crossOrigin": false})
	return raw
}

// make answers navigator.credentials.create.
func (d *device) make(options json.RawMessage) []byte {
	client := d.clientData("webauthn.create", options)
	pub, err := d.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		d.t.Fatal(err)
	}
	// {1: 2, 3: -7, -1: 1, -2: x, -3: y} in CBOR: a key of ES256.
	cose := slices.Concat([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, pub[1:33], []byte{0x22, 0x58, 32}, pub[33:])
	data := d.authData(slices.Concat(make([]byte, 16), []byte{0, byte(len(d.id))}, d.id, cose))
	// {"fmt": "none", "attStmt": {}, "authData": data}
	object := slices.Concat([]byte{0xa3, 0x63}, []byte("fmt"), []byte{0x64}, []byte("none"), []byte{0x67}, []byte("attStmt"), []byte{0xa0, 0x68}, []byte("authData"), []byte{0x58, byte(len(data))}, data)
	raw, _ := json.Marshal(map[string]any{"id": b64(d.id), "rawId": b64(d.id), "type": "public-key",
		"response": map[string]any{"clientDataJSON": b64(client), "attestationObject": b64(object)}})
	return raw
}

// use answers navigator.credentials.get.
func (d *device) use(options json.RawMessage) []byte {
	client := d.clientData("webauthn.get", options)
	data := d.authData(nil)
	sum := sha256.Sum256(client)
	signed := sha256.Sum256(append(slices.Clone(data), sum[:]...))
	sig, err := ecdsa.SignASN1(rand.Reader, d.key, signed[:])
	if err != nil {
		d.t.Fatal(err)
	}
	raw, _ := json.Marshal(map[string]any{"id": b64(d.id), "rawId": b64(d.id), "type": "public-key",
		"response": map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(sig), "userHandle": b64(d.owner)}})
	return raw
}

// add makes a passkey of the actor's on the device.
func (h *harness) add(t *testing.T, a accounts.Actor, d *device) accounts.Passkey {
	t.Helper()
	options, err := h.PasskeyOptions(t.Context(), a, site)
	if err != nil {
		t.Fatalf("PasskeyOptions: %v", err)
	}
	k, err := h.AddPasskey(t.Context(), a, site, "laptop", d.make(options))
	if err != nil {
		t.Fatalf("AddPasskey: %v", err)
	}
	return k
}

// A passkey signs in alone where the device checks its user, once for each challenge, and for its own site only.
func TestASVS_6_5_7_PasskeysSignIn(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.bare(t, accounts.User{Email: "ada@example.com"})
		a, _ := h.signIn(t, ada.ID, accounts.ProofLink)
		d := newDevice(t, true)
		k := h.add(t, a, d)
		if k.Name != "laptop" || k.UserID != ada.ID {
			t.Errorf("passkey: %+v", k)
		}
		ask := func() (json.RawMessage, signin.Entered) {
			options, e, err := h.LoginPasskeyOptions(ctx, "", site, accounts.Meta{IP: "192.0.2.1"})
			if err != nil {
				t.Fatal(err)
			}
			return options, e
		}
		options, e := ask()
		answer := d.use(options)
		done, err := h.LoginByPasskey(ctx, e.Pending, site, answer, accounts.Meta{})
		if err != nil || done.UserID != ada.ID {
			t.Fatalf("LoginByPasskey: %+v %v", done, err)
		}
		if b, err := h.Authenticate(ctx, done.Cookie); err != nil || !b.SecondFactor {
			t.Errorf("a passkey's session: %+v %v", b, err)
		}
		_, err = h.LoginByPasskey(ctx, e.Pending, site, answer, accounts.Meta{})
		wantCode(t, err, "login_ended")
		_, e = ask()
		_, err = h.LoginByPasskey(ctx, e.Pending, site, answer, accounts.Meta{}) // the answer to another challenge
		wantCode(t, err, "passkey_invalid")
		for name, spoil := range map[string]func(*device){
			"another origin":     func(d *device) { d.origin = "https://evil.example" },
			"another site":       func(d *device) { d.host = "evil.example" },
			"nobody checked":     func(d *device) { d.uv = false },
			"another's key":      func(d *device) { d.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
			"another's name":     func(d *device) { d.owner = []byte("usr_nobody") },
			"a copy of the key":  func(d *device) { d.count = 0 },
			"an unknown passkey": func(d *device) { d.id = make([]byte, 32) },
		} {
			odd := *d
			spoil(&odd)
			options, e := ask()
			if _, err := h.LoginByPasskey(ctx, e.Pending, site, odd.use(options), accounts.Meta{}); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		d.count = 50
		options, e = ask()
		h.pass(6 * time.Minute)
		_, err = h.LoginByPasskey(ctx, e.Pending, site, d.use(options), accounts.Meta{})
		wantCode(t, err, "login_ended")
		_, _, err = h.LoginPasskeyOptions(ctx, "", signin.Site{}, accounts.Meta{})
		wantCode(t, err, "passkeys_unavailable")

		// The last way in stays.
		a = h.freshly(t, done.Cookie)
		wantCode(t, h.RemovePasskey(ctx, a, k.ID), "last_sign_in_method")
		second := h.add(t, a, newDevice(t, true))
		if err := h.RemovePasskey(ctx, a, k.ID); err != nil {
			t.Error(err)
		}
		if got, err := h.RenamePasskey(ctx, a, second.ID, "phone"); err != nil || got.Name != "phone" {
			t.Errorf("RenamePasskey: %+v %v", got, err)
		}
		options, e = ask()
		_, err = h.LoginByPasskey(ctx, e.Pending, site, d.use(options), accounts.Meta{})
		wantCode(t, err, "passkey_unknown")
	})
}

// freshly returns the actor of a session who has just confirmed who they are.
func (h *harness) freshly(t *testing.T, cookie string) accounts.Actor {
	t.Helper()
	a, err := h.Authenticate(t.Context(), cookie)
	if err != nil {
		t.Fatal(err)
	}
	a.ConfirmedAt = h.now().UnixMilli()
	return a
}

// After a password a passkey is the second factor, also on a device that does not check its user; and it confirms who somebody is.
func TestASVS_6_3_3_PasskeysAreASecondFactor(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada := h.user(t, "ada@example.com")
		a, _ := h.signIn(t, ada.ID, accounts.ProofPassword)
		touch := newDevice(t, false)
		h.add(t, a, touch)
		if b, err := h.Authenticate(ctx, ""); err == nil || b.SecondFactor {
			t.Error("nobody is somebody")
		}
		e := h.begin(t, "ada@example.com", accounts.Meta{})
		if e.Cookie != "" || !slices.Equal(e.Methods, []string{accounts.ProofPasskey}) {
			t.Fatalf("after the password: %+v", e)
		}
		_, err := h.LoginByPasskey(ctx, e.Pending, site, touch.use(json.RawMessage(`{"challenge":"made up"}`)), accounts.Meta{})
		wantCode(t, err, "login_ended") // none was asked for
		options, next, err := h.LoginPasskeyOptions(ctx, e.Pending, site, accounts.Meta{})
		if err != nil || next.Pending != e.Pending {
			t.Fatal(err)
		}
		stranger := newDevice(t, true)
		stranger.owner = []byte(ada.ID)
		_, err = h.LoginByPasskey(ctx, e.Pending, site, stranger.use(options), accounts.Meta{})
		wantCode(t, err, "passkey_unknown")
		if options, _, err = h.LoginPasskeyOptions(ctx, e.Pending, site, accounts.Meta{}); err != nil {
			t.Fatal(err)
		}
		done, err := h.LoginByPasskey(ctx, e.Pending, site, touch.use(options), accounts.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := h.Authenticate(ctx, done.Cookie)
		if err != nil || !b.SecondFactor {
			t.Fatalf("%+v %v", b, err)
		}
		// To confirm, the device must check its user.
		checks := newDevice(t, true)
		h.add(t, b, checks)
		h.pass(20 * time.Minute)
		wantCode(t, h.NeedConfirmed(b), "confirm_needed")
		for _, d := range []*device{touch, checks} {
			if options, err = h.ConfirmPasskeyOptions(ctx, b, site); err != nil {
				t.Fatal(err)
			}
			err = h.ConfirmByPasskey(ctx, b, site, d.use(options))
			if d.uv != (err == nil) {
				t.Errorf("a device that checks its user %v confirms: %v", d.uv, err)
			}
		}
		wantCode(t, h.ConfirmByPasskey(ctx, b, site, checks.use(options)), "passkey_ended")
		if b, err = h.Authenticate(ctx, done.Cookie); err != nil || h.NeedConfirmed(b) != nil {
			t.Errorf("after confirming: %+v %v", b, err)
		}
	})
}
