package wire

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// Times of commands.
const (
	// CommandLife is how long a command may be begun, unless its Signer sets another time.
	CommandLife = time.Minute
	// MaxCommandLife is the longest a machine accepts: it must remember every command for as long as it could be replayed.
	MaxCommandLife = 10 * time.Minute
	// MaxSkew is the largest accepted difference between the two clocks. A machine whose clock is further off is refused, with that reason.
	MaxSkew = 2 * time.Minute
)

const (
	commandText = "parawork runner command\n" // prefix of everything signed, so that no signature is valid for anything else
	maxHeader   = 16 << 10
	maxWords    = 200 // of a name or a purpose, in bytes
)

var encoding = base64.RawURLEncoding

// Sign makes the CommandHeader of a command.
func Sign(key ed25519.PrivateKey, c Command) (string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	text := encoding.EncodeToString(b)
	return text + "." + encoding.EncodeToString(ed25519.Sign(key, []byte(commandText+text))), nil
}

// Open reads a CommandHeader which the server's key has signed. It does not check whether the command is for this machine, this request and
// this moment: a Checker does.
func Open(header string, serverKey ed25519.PublicKey) (Command, error) {
	var c Command
	text, sig, ok := strings.Cut(header, ".")
	if header == "" {
		return c, forged("the request carries no command")
	}
	if !ok || len(header) > maxHeader || len(serverKey) != ed25519.PublicKeySize {
		return c, forged("the command cannot be read")
	}
	s, err := encoding.DecodeString(sig)
	if err != nil || !ed25519.Verify(serverKey, []byte(commandText+text), s) {
		return c, forged("the command is not signed with the server's key")
	}
	b, err := encoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &c) != nil {
		return Command{}, forged("the command cannot be read")
	}
	return c, nil
}

// forged says what is wrong with a command.
func forged(what string) error {
	return fault.New(fault.Forbidden, CodeForged, "The machine refuses a command that the server did not sign for it, now: %s.", what)
}

// BodyHash returns the hash of a body in a Command. nil is a body that streams and is not hashed; a request without a body has an empty one.
func BodyHash(body []byte) string {
	if body == nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Order says for whom and what for a request to a machine is made: texts for its owner's log and questions.
type Order struct {
	UserID  string
	User    string // their name
	Purpose string
}

type orderKey struct{}

// WithOrder marks all requests under ctx as made for somebody.
func WithOrder(ctx context.Context, o Order) context.Context {
	return context.WithValue(ctx, orderKey{}, o)
}

// OrderOf returns for whom requests under ctx are made, zero when unknown.
func OrderOf(ctx context.Context) Order {
	o, _ := ctx.Value(orderKey{}).(Order)
	return o
}

// Signer signs requests to one machine as commands.
type Signer struct {
	Key    ed25519.PrivateKey // the server's
	Runner string             // the machine's id
	Life   time.Duration      // how long a command may be begun; 0 = CommandLife
	Now    func() time.Time   // nil = time.Now
}

// Sign puts a CommandHeader on req, for the user in the request's context (WithOrder). body is the request's body: nil for one that streams,
// empty but not nil for none. Each signature is valid for one sending: sign again to repeat the request.
func (s Signer) Sign(req *http.Request, body []byte) error {
	life := s.Life
	if life <= 0 {
		life = CommandLife
	}
	o := OrderOf(req.Context())
	at := now(s.Now)
	header, err := Sign(s.Key, Command{ID: rand.Text(), Runner: s.Runner, Method: method(req), Path: target(req), Body: BodyHash(body),
		At: at.UnixMilli(), Until: at.Add(life).UnixMilli(), UserID: clip(o.UserID), User: clip(o.User), Purpose: clip(o.Purpose)})
	if err != nil {
		return err
	}
	req.Header.Set(CommandHeader, header)
	return nil
}

func now(clock func() time.Time) time.Time {
	if clock == nil {
		return time.Now()
	}
	return clock()
}

func clip(s string) string {
	if len(s) > maxWords {
		s = s[:maxWords]
	}
	return strings.ToValidUTF8(s, "")
}

func method(req *http.Request) string {
	return cmp.Or(req.Method, http.MethodGet)
}

// target is the path with the query, as sent.
func target(req *http.Request) string {
	if req.RequestURI != "" {
		return req.RequestURI
	}
	return req.URL.RequestURI()
}

// Checker verifies commands on the machine. Safe for concurrent use.
type Checker struct {
	Runner    string            // this machine's id
	ServerKey ed25519.PublicKey // pinned when it was enrolled
	Seen      *Seen
	Now       func() time.Time // nil = time.Now
}

// Check returns the command a request carries: signed with the pinned key, for this machine, this request, this body and this moment, and
// never used before. Once it has returned nil it refuses the same command forever. body is what was read of the request; nil for one that
// streams, and then only a command for a stream is valid.
func (c *Checker) Check(req *http.Request, body []byte) (Command, error) {
	cmd, err := Open(req.Header.Get(CommandHeader), c.ServerKey)
	if err != nil {
		return Command{}, err
	}
	ms := now(c.Now).UnixMilli()
	switch skew := MaxSkew.Milliseconds(); {
	case cmd.Runner != c.Runner:
		return cmd, forged("the command is for another machine")
	case len(cmd.ID) < 20 || len(cmd.ID) > 100:
		return cmd, forged("the command has no proper id")
	case cmd.Method != method(req) || cmd.Path != target(req):
		return cmd, forged("the command is for another request")
	case (body == nil) != (cmd.Body == "") || subtle.ConstantTimeCompare([]byte(cmd.Body), []byte(BodyHash(body))) != 1:
		return cmd, forged("the command is for another body")
	case cmd.At <= 0 || cmd.Until <= cmd.At || cmd.Until-cmd.At > MaxCommandLife.Milliseconds():
		return cmd, forged("the command is valid for too long, or never")
	case cmd.At-skew > ms:
		return cmd, forged("the command is from the future; compare the clocks of this machine and of the server")
	case cmd.Until+skew < ms:
		return cmd, forged("the command came too late")
	}
	if err := c.Seen.Take(cmd); err != nil {
		return cmd, err
	}
	failpoint.Reach(failpoint.CommandHad)
	return cmd, nil
}
