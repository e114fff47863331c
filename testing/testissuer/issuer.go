// Package testissuer is a small, strict OpenID Connect provider over HTTP, with a GitHub next to it, for tests. They refuse what real ones
// refuse (no PKCE, no state, no nonce, an address that is not registered, a code that was used), and tests can make them lie.
package testissuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Person is somebody the issuer knows.
type Person struct {
	Subject  string // also the numeric id at GitHub
	Email    string
	Verified bool
	Name     string
	Claims   map[string]any // further claims: groups, amr
	// At GitHub.
	Login string
	Orgs  []string // those they are an active member of
	Teams []string // organisation/team
}

// Client is a program that may ask.
type Client struct {
	ID, Secret string   // a client without a secret is a public one
	Redirects  []string // addresses it may have people sent to
}

// Tamper makes the issuer lie in its next ID tokens; the zero Tamper is honest.
type Tamper struct {
	Claims   func(claims map[string]any)
	Alg      string         // none, HS256, ES256
	OtherKey bool           // signs with a key that is not published
	UserInfo map[string]any // instead of what the user-info address knows
	Issuer   string         // says another issuer in the address people come back with
	Mute     bool           // sends no ID token
}

// Issuer is the provider. Make it with New; it is an http.Handler.
type Issuer struct {
	mux     *http.ServeMux
	now     func() time.Time
	rsa     *rsa.PrivateKey
	ec      *ecdsa.PrivateKey
	base    string
	saysIss bool

	mu      sync.Mutex
	clients map[string]Client
	people  map[string]Person
	asked   map[string]ask    // by the value in the form
	codes   map[string]ask    // by code, until used
	tokens  map[string]Person // by access token
	tamper  Tamper
	calls   map[string]int // by path
	down    bool
}

// ask is one request to sign somebody in.
type ask struct {
	client, redirect, state, nonce, challenge string
	github                                    bool
	scopes                                    []string
	who                                       Person
	until                                     time.Time
}

var keys = sync.OnceValues(func() (*rsa.PrivateKey, *ecdsa.PrivateKey) {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return r, e
})

// New returns an issuer that is reached at base. now is its clock, nil = time.Now.
func New(base string, now func() time.Time) *Issuer {
	if now == nil {
		now = time.Now
	}
	i := &Issuer{mux: http.NewServeMux(), now: now, base: base, saysIss: true, clients: map[string]Client{}, people: map[string]Person{}, asked: map[string]ask{},
		codes: map[string]ask{}, tokens: map[string]Person{}, calls: map[string]int{}}
	i.rsa, i.ec = keys()
	i.mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	i.mux.HandleFunc("GET /jwks", i.jwks)
	i.mux.HandleFunc("GET /authorize", i.authorize)
	i.mux.HandleFunc("POST /decide", i.decide)
	i.mux.HandleFunc("POST /token", i.token)
	i.mux.HandleFunc("GET /userinfo", i.userInfo)
	i.gitHub()
	return i
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.calls[r.URL.Path]++
	down := i.down
	i.mu.Unlock()
	if down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	i.mux.ServeHTTP(w, r)
}

// Base is where the issuer is reached, which is its name.
func (i *Issuer) Base() string { return i.base }

// Register lets a client ask, or changes it.
func (i *Issuer) Register(c Client) { i.mu.Lock(); defer i.mu.Unlock(); i.clients[c.ID] = c }

// Know adds or changes a person.
func (i *Issuer) Know(p Person) { i.mu.Lock(); defer i.mu.Unlock(); i.people[p.Subject] = p }

// Lie makes the issuer lie from now on.
func (i *Issuer) Lie(t Tamper) { i.mu.Lock(); defer i.mu.Unlock(); i.tamper = t }

// Down makes the issuer answer nothing but 502.
func (i *Issuer) Down(down bool) { i.mu.Lock(); defer i.mu.Unlock(); i.down = down }

// Calls returns how often a path was asked for.
func (i *Issuer) Calls(path string) int { i.mu.Lock(); defer i.mu.Unlock(); return i.calls[path] }

func (i *Issuer) lies() Tamper { i.mu.Lock(); defer i.mu.Unlock(); return i.tamper }

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"issuer": i.base, "authorization_endpoint": i.base + "/authorize", "token_endpoint": i.base + "/token", "userinfo_endpoint": i.base + "/userinfo",
		"jwks_uri": i.base + "/jwks", "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"client_secret_basic", "none"},
		"authorization_response_iss_parameter_supported": i.saysIss, "scopes_supported": []string{"openid", "email", "profile", "groups"}})
}

func (i *Issuer) jwks(w http.ResponseWriter, _ *http.Request) {
	b64 := base64.RawURLEncoding.EncodeToString
	answer(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "rsa", "n": b64(i.rsa.N.Bytes()), "e": b64(big.NewInt(int64(i.rsa.E)).Bytes())}}})
}

// request reads and judges the parameters of a request to sign somebody in.
func (i *Issuer) request(q url.Values, github bool) (ask, error) {
	for name, all := range q {
		if len(all) != 1 {
			return ask{}, fmt.Errorf("%s is given %d times", name, len(all))
		}
	}
	i.mu.Lock()
	c, ok := i.clients[q.Get("client_id")]
	i.mu.Unlock()
	a := ask{client: c.ID, redirect: q.Get("redirect_uri"), state: q.Get("state"), nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), github: github,
		scopes: strings.Fields(q.Get("scope")), until: i.now().Add(time.Minute)}
	switch {
	case !ok:
		return ask{}, errors.New("the client is not registered")
	case !slices.Contains(c.Redirects, a.redirect):
		return ask{}, fmt.Errorf("the address %s is not registered", a.redirect)
	case q.Get("response_type") != "code":
		return ask{}, errors.New("response_type must be code")
	case len(a.state) < 22:
		return ask{}, errors.New("state is missing, or can be guessed")
	case q.Get("code_challenge_method") != "S256" || len(a.challenge) != 43:
		return ask{}, errors.New("PKCE with S256 is missing")
	case !github && len(a.nonce) < 22:
		return ask{}, errors.New("nonce is missing, or can be guessed")
	case !github && !slices.Contains(a.scopes, "openid"):
		return ask{}, errors.New("the scope openid is missing")
	}
	return a, nil
}

var page = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>{{.Title}}</title><body><h1>{{.Title}}</h1>
<p>{{.Client}} asks who you are.</p>{{range .People}}<form method="post" action="/decide"><input type="hidden" name="ask" value="{{$.Ask}}"><button name="subject" value="{{.Subject}}">Continue as {{.Name}}</button></form>{{end}}
<form method="post" action="/decide"><input type="hidden" name="ask" value="{{.Ask}}"><button name="subject" value="">Deny</button></form></body></html>`))

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) { i.ask(w, r, false) }

func (i *Issuer) ask(w http.ResponseWriter, r *http.Request, github bool) {
	a, err := i.request(r.URL.Query(), github)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	value := random()
	i.mu.Lock()
	i.asked[value] = a
	people := slices.SortedFunc(maps.Values(i.people), func(a, b Person) int { return strings.Compare(a.Name, b.Name) })
	i.mu.Unlock()
	title := "Test issuer"
	if github {
		title = "Test GitHub"
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_ = page.Execute(w, map[string]any{"Title": title, "Client": a.client, "Ask": value, "People": people})
}

func (i *Issuer) decide(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	a, ok := i.asked[r.PostFormValue("ask")]
	delete(i.asked, r.PostFormValue("ask"))
	i.mu.Unlock()
	if !ok {
		http.Error(w, "nothing was asked", http.StatusBadRequest)
		return
	}
	to, err := i.sendBack(a, r.PostFormValue("subject"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// Decide does what a person does on the issuer's page: it judges an address a client sent somebody to, and returns the one the issuer
// sends them back to. An empty subject denies.
func (i *Issuer) Decide(authURL, subject string) (string, error) {
	u, err := url.Parse(authURL)
	if err != nil {
		return "", err
	}
	a, err := i.request(u.Query(), strings.HasSuffix(u.Path, "/login/oauth/authorize"))
	if err != nil {
		return "", err
	}
	return i.sendBack(a, subject)
}

func (i *Issuer) sendBack(a ask, subject string) (string, error) {
	u, err := url.Parse(a.redirect)
	if err != nil {
		return "", err
	}
	q := url.Values{"state": {a.state}}
	if !a.github {
		q.Set("iss", i.base)
		if lie := i.lies().Issuer; lie != "" {
			q.Set("iss", lie)
		}
	}
	if subject == "" {
		q.Set("error", "access_denied")
		u.RawQuery = q.Encode()
		return u.String(), nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	var known bool
	if a.who, known = i.people[subject]; !known {
		return "", fmt.Errorf("nobody has the subject %q", subject)
	}
	code := random()
	i.codes[code] = a
	q.Set("code", code)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// redeem takes a code, once, from the client it was given to.
func (i *Issuer) redeem(r *http.Request, github bool) (a ask, status int, code string) {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id) // RFC 6749, 2.3.1
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	c, ok := i.clients[id]
	a, there := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1 || c.Secret != "" && basic == github:
		return ask{}, http.StatusUnauthorized, "invalid_client"
	case r.PostFormValue("grant_type") != "authorization_code" && !github:
		return ask{}, http.StatusBadRequest, "unsupported_grant_type"
	case !there || a.client != id || a.github != github || a.redirect != r.PostFormValue("redirect_uri") || i.now().After(a.until) || base64.RawURLEncoding.EncodeToString(sum[:]) != a.challenge:
		return ask{}, http.StatusBadRequest, "invalid_grant"
	}
	return a, 0, ""
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	a, status, code := i.redeem(r, false)
	if code != "" {
		answer(w, status, map[string]any{"error": code})
		return
	}
	access := random()
	i.mu.Lock()
	i.tokens[access] = a.who
	lie := i.tamper
	i.mu.Unlock()
	half := sha256.Sum256([]byte(access))
	said := map[string]any{"iss": i.base, "sub": a.who.Subject, "aud": a.client, "nonce": a.nonce, "iat": i.now().Unix(), "exp": i.now().Add(5 * time.Minute).Unix(),
		"at_hash": base64.RawURLEncoding.EncodeToString(half[:16])}
	if slices.Contains(a.scopes, "email") && a.who.Email != "" {
		said["email"], said["email_verified"] = a.who.Email, a.who.Verified
	}
	if slices.Contains(a.scopes, "profile") {
		said["name"] = a.who.Name
	}
	maps.Copy(said, a.who.Claims)
	if lie.Claims != nil {
		lie.Claims(said)
	}
	out := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300}
	if !lie.Mute {
		out["id_token"] = i.sign(said, lie, i.secretOf(a.client))
	}
	answer(w, http.StatusOK, out)
}

func (i *Issuer) secretOf(client string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.clients[client].Secret
}

// sign makes an ID token, an honest one or not.
func (i *Issuer) sign(said map[string]any, lie Tamper, secret string) string {
	alg, kid := "RS256", "rsa"
	if lie.Alg != "" {
		alg = lie.Alg
	}
	enc := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	text := enc(map[string]any{"alg": alg, "kid": kid, "typ": "JWT"}) + "." + enc(said)
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	switch alg {
	case "none":
	case "HS256":
		m := hmac.New(sha256.New, []byte(secret))
		m.Write([]byte(text))
		sig = m.Sum(nil)
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, i.ec, sum[:])
		if err != nil {
			panic(err)
		}
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	default:
		key := i.rsa
		if lie.OtherKey {
			key = otherKey()
		}
		var err error
		if sig, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]); err != nil {
			panic(err)
		}
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

var otherKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// bearer returns whose access token a request shows.
func (i *Issuer) bearer(r *http.Request) (Person, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p, ok := i.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	return p, ok
}

func (i *Issuer) userInfo(w http.ResponseWriter, r *http.Request) {
	p, ok := i.bearer(r)
	if !ok {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_token"})
		return
	}
	said := map[string]any{"sub": p.Subject, "email": p.Email, "email_verified": p.Verified, "name": p.Name}
	maps.Copy(said, i.lies().UserInfo)
	answer(w, http.StatusOK, said)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func random() string { return rand.Text() + rand.Text() }
