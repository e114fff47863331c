package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// EnrolConfig configures the enrolment of a machine.
type EnrolConfig struct {
	Root   string // see Root
	Server string // see Address
	Token  string
	Name   string // "" = the token's, else the host's
	Hello  wire.Hello
	HTTP   *http.Client // the HTTP client for the server; nil = the default one
	CA     string       // stored with the identity
	Proxy  string
	Now    func() time.Time
	Rand   io.Reader // default crypto/rand
}

// pending is a key that was made for a token and may already be known to the server.
type pending struct {
	Key ed25519.PrivateKey `json:"key"`
}

// Enrolled returns the identity that this token has already made on this machine, so that the same line can run again; nil when there is
// none.
func Enrolled(root, server, token string) *Identity {
	all, _ := List(root) // an unreadable identity cannot be matched with a token
	for _, id := range all {
		if id.Server == server && id.TokenHash == hashOf(token) {
			return id
		}
	}
	return nil
}

// Enrol exchanges a token for a key of the machine's own. The server's key must match the fingerprint in the token: it does not
// trust another server at the address. It stores the key on disk before it sends it, so that after a crash, or a lost response, it sends
// the same token with the same key, and the server repeats its answer.
//
// A token that renews a machine's key finds that machine's folder; any other gets a folder of its own.
func Enrol(ctx context.Context, cfg EnrolConfig) (*Identity, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	cfg.HTTP = cmp.Or(cfg.HTTP, http.DefaultClient)
	token, err := wire.ParseToken(cfg.Token)
	if err != nil {
		return nil, fault.New(fault.Invalid, codeToken, "--token: %v.", err)
	}
	servers := filepath.Join(cfg.Root, folderOf(cfg.Server))
	if err := os.MkdirAll(servers, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of this machine's work: %w", err)
	}
	waiting := filepath.Join(servers, ".pending-"+hashOf(cfg.Token)[:16])
	key, err := cfg.key(waiting)
	if err != nil {
		return nil, err
	}
	said, err := cfg.send(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(said.ServerKey) != ed25519.PublicKeySize || !token.Knows(said.ServerKey) {
		return nil, fault.New(fault.Forbidden, "runner_server_unknown",
			"%s is not the server this token belongs to: its key is different. Nothing was connected. Check the address, and whether somebody intercepts the connection.", cfg.Server)
	}
	if !plainID(said.RunnerID) {
		return nil, fault.New(fault.Internal, "runner_server_unknown", "The server's answer is invalid: it gave this machine no id.")
	}
	name := cmp.Or(strings.TrimSpace(clean(said.Name)), "machine")
	id := &Identity{RunnerID: said.RunnerID, Name: name, Team: clean(said.Team), Server: cfg.Server, Key: key, ServerKey: said.ServerKey,
		TokenHash: hashOf(cfg.Token), EnrolledAt: cfg.Now().UnixMilli(), CA: cfg.CA, Proxy: cfg.Proxy}
	if err := id.settle(cfg.Root, servers); err != nil {
		return nil, err
	}
	if err := os.Remove(waiting); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("enrolling: %w", err)
	}
	return id, nil
}

const codeToken = "runner_token_invalid"

// key returns the pending key at path, or makes and stores one.
func (cfg *EnrolConfig) key(path string) (ed25519.PrivateKey, error) {
	var p pending
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &p) == nil && len(p.Key) == ed25519.PrivateKeySize {
		return p.Key, nil
	}
	_, key, err := ed25519.GenerateKey(cfg.Rand)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(pending{key})
	if err != nil {
		return nil, err
	}
	return key, atomicfile.WriteDurable(path, text, 0o600)
}

// send does the exchange.
func (cfg *EnrolConfig) send(ctx context.Context, key ed25519.PrivateKey) (wire.Enrolled, error) {
	var out wire.Enrolled
	body, err := json.Marshal(wire.Enrol{Token: cfg.Token, Name: cfg.Name, PublicKey: key.Public().(ed25519.PublicKey), Hello: cfg.Hello})
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.Server+wire.EnrolPath, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	client := *cfg.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // send the token only to the address its owner gave
	resp, err := client.Do(req)
	if err != nil {
		return out, fault.Wrap(err, fault.Unavailable, "runner_server_unreachable", "%s cannot be reached: %v. Behind a proxy, set --proxy or HTTPS_PROXY; with a certificate of your own, --ca.", cfg.Server, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return out, fault.Wrap(err, fault.Unavailable, "runner_server_unreachable", "The connection to %s broke: %v. Run the same line again.", cfg.Server, err)
	}
	if resp.StatusCode/100 == 3 {
		return out, fault.New(fault.Invalid, "runner_server_invalid", "%s redirects this machine to %s. If that is your server, use that address with --server.", cfg.Server, clean(resp.Header.Get("Location")))
	}
	if resp.StatusCode/100 != 2 {
		var said struct{ Code, Message string }
		if json.Unmarshal(text, &said) == nil && said.Code != "" && said.Message != "" {
			kind := fault.Invalid
			switch resp.StatusCode {
			case http.StatusTooManyRequests:
				kind = fault.RateLimited
			case http.StatusServiceUnavailable:
				kind = fault.Unavailable
			}
			return out, fault.New(kind, clean(said.Code), "%s", clean(said.Message))
		}
		return out, fault.New(fault.Unavailable, "runner_server_unreachable", "%s answered %s. Is it a Parawork server, and is its address right?", cfg.Server, resp.Status)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fault.New(fault.Unavailable, "runner_server_unreachable", "%s did not answer like a Parawork server. Check the address.", cfg.Server)
	}
	return out, nil
}

// settle finds the folder for the identity, and writes it there.
func (id *Identity) settle(root, servers string) error {
	all, _ := List(root) // damaged identities keep their folders
	for _, old := range all {
		if old.Server == id.Server && old.RunnerID == id.RunnerID { // a new key
			id.Dir, id.Mode = old.Dir, old.Mode
			return id.Save()
		}
	}
	base := folderOf(id.Name)
	for n := 1; ; n++ {
		dir := filepath.Join(servers, base)
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", dir, n)
		}
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) && n < 1000 {
			continue // it belongs to another machine, or to a removed one whose work may still be in it
		}
		if err != nil {
			return fmt.Errorf("making this machine's folder: %w", err)
		}
		id.Dir = dir
		return id.Save()
	}
}

// folderOf makes a short folder name of a server's address, or of a machine's name.
func folderOf(text string) string {
	text = strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://"))
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.' && b.Len() > 0, r == '-' && b.Len() > 0:
			b.WriteRune(r)
		case r == ':':
			b.WriteByte('_')
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 40 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-."); s != "" {
		return s
	}
	return "machine"
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// plainID reports whether an id can be part of a path and of a header.
func plainID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// clean removes terminal control sequences from a server's text.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, text)
	if len(text) > 1000 {
		text = strings.ToValidUTF8(text[:1000], "")
	}
	return text
}
