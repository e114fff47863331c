// Package contentorigin is a second origin of the server, on which nothing is but contents that agents made. A page there has no cookie of
// Parawork and no operation of its API: an address names one content, is signed, and ends after a few minutes.
//
// It starts no goroutine.
package contentorigin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Life is how long an address works.
const Life = 10 * time.Minute

const under = "/content/"

// Config is what an Origin is made of. URL and Serve are required.
type Config struct {
	URL *url.URL // its scheme and host
	// Serve sends the content with an id. The address was signed for it by somebody who may read it.
	Serve func(w http.ResponseWriter, r *http.Request, id string)
	Now   func() time.Time // nil = time.Now
}

// Origin serves contents. Safe for concurrent use.
type Origin struct {
	cfg Config
	key []byte // of this process: an address ends with it
}

// New returns an Origin.
func New(cfg Config) *Origin {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return &Origin{cfg, key}
}

// Serves reports whether a request's host is this origin.
func (o *Origin) Serves(host string) bool { return strings.EqualFold(host, o.cfg.URL.Host) }

// Address returns where a browser reads a content for some minutes. Whoever has it may.
func (o *Origin) Address(id string) string {
	until := strconv.FormatInt(o.cfg.Now().Add(Life).Unix(), 10)
	return fmt.Sprintf("%s://%s%s%s/%s/%s", o.cfg.URL.Scheme, o.cfg.URL.Host, under, url.PathEscape(id), until, o.sign(id, until))
}

func (o *Origin) sign(id, until string) string {
	mac := hmac.New(sha256.New, o.key)
	fmt.Fprintf(mac, "%d:%s:%s", len(id), id, until)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ServeHTTP sends a content to whoever has its address.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin") // Parawork's own page frames it
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "Contents are only read here.", http.StatusMethodNotAllowed)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, under)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || !hmac.Equal([]byte(parts[2]), []byte(o.sign(parts[0], parts[1]))) {
		http.Error(w, "There is nothing at this address.", http.StatusNotFound)
		return
	}
	if until, err := strconv.ParseInt(parts[1], 10, 64); err != nil || o.cfg.Now().Unix() >= until {
		http.Error(w, "This address has expired. Open the preview in Parawork again.", http.StatusGone)
		return
	}
	r = r.Clone(r.Context())
	r.Header.Del("Cookie") // nothing behind this reads one
	r.Header.Del("Authorization")
	o.cfg.Serve(w, r, parts[0])
}
