package wire

import (
	"crypto/ed25519"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Codes by which a server refuses, or disconnects, a machine.
const (
	CodeRevoked  = "runner_revoked"  // it is no longer known: revoked, or its key was replaced. It does not try again
	CodeReplaced = "runner_replaced" // another program has connected as this machine. This one does not try again
	CodeClock    = "runner_clock"    // the machine's clock is off
)

// RefusalHeader carries "<base64url signature>" of the server over RefusalText: only a refusal by the real server keeps a machine from
// trying again. Proxies and attackers in between can only delay it.
const RefusalHeader = "Parawork-Refusal"

// RefusalText is what a server signs that refuses a connection: auth is the Authorization header the machine sent.
func RefusalText(auth, code string) string {
	return "parawork runner refusal\n" + auth + "\n" + code
}

// Caller is the identity that a connecting machine claims.
type Caller struct {
	ID  string
	At  int64 // ms UTC, of the machine's clock
	sig []byte
}

// CallHeader is the Authorization header of a machine that connects.
func CallHeader(id string, key ed25519.PrivateKey, now time.Time) string {
	ms := strconv.FormatInt(now.UnixMilli(), 10)
	return AuthScheme + " " + id + "." + ms + "." + encoding.EncodeToString(ed25519.Sign(key, []byte(ConnectText(id, ms))))
}

// ReadCall reads that header. Nothing in it is verified until Check.
func ReadCall(header string) (Caller, error) {
	wrong := fault.New(fault.Unauthorized, "runner_unknown", "This is where members' own machines connect. Start parawork runner with a token from the Machines page.")
	scheme, rest, _ := strings.Cut(header, " ")
	part := strings.Split(rest, ".")
	if !strings.EqualFold(scheme, AuthScheme) || len(part) != 3 || len(part[0]) > 100 || len(header) > 500 {
		return Caller{}, wrong
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	sig, derr := encoding.DecodeString(part[2])
	if err != nil || derr != nil || at <= 0 || strconv.FormatInt(at, 10) != part[1] {
		return Caller{}, wrong
	}
	return Caller{ID: part[0], At: at, sig: sig}, nil
}

// Check verifies that the machine with this key called, and that its clock is accurate enough for commands.
func (c Caller) Check(key ed25519.PublicKey, now time.Time) error {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, []byte(ConnectText(c.ID, strconv.FormatInt(c.At, 10))), c.sig) {
		return Revoked()
	}
	off := time.UnixMilli(c.At).Sub(now).Round(time.Second)
	if off.Abs() > MaxSkew {
		way := "fast"
		if off < 0 {
			way = "slow"
		}
		return fault.New(fault.Invalid, CodeClock, "The clock of this machine is %s %s. Set it right: commands of the server are valid for a minute.", off.Abs(), way)
	}
	return nil
}

// Revoked is sent to a machine that is unknown, or no longer known by this key.
func Revoked() error {
	return fault.New(fault.Gone, CodeRevoked, "This machine is no longer connected to the team: it was revoked, or another one has its key. Connect it again with a token from the Machines page.")
}

// SignRefusal signs the response to a machine that is refused, with the code in the response's body.
func SignRefusal(h http.Header, key ed25519.PrivateKey, auth, code string) {
	h.Set(RefusalHeader, encoding.EncodeToString(ed25519.Sign(key, []byte(RefusalText(auth, code)))))
}

// RefusalProven reports whether the server itself has refused, not somebody in between.
func RefusalProven(h http.Header, key ed25519.PublicKey, auth, code string) bool {
	sig, err := encoding.DecodeString(h.Get(RefusalHeader))
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(RefusalText(auth, code)), sig)
}
