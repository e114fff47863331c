package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Client calls the API of an instance as one user.
type Client struct {
	URL   string
	Token string // API token; "" = nobody
	Team  string // slug

	t          testing.TB
	workspaces []string
}

// Problem is an error answer of the API.
type Problem struct {
	Status    int            `json:"-"`
	Code      string         `json:"code"`
	Message   string         `json:"message"`
	Details   map[string]any `json:"details"`
	RequestID string         `json:"request_id"`
}

func (p *Problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Message) }

// Do sends a request with any body and headers (names and values in turn), and returns the answer with its body read.
func (c *Client) Do(method, path string, body io.Reader, header ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequest(method, c.URL+"/api/v1"+path, body)
	if err != nil {
		return nil, nil, err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, text, err
}

// Try calls the API with a JSON body and reads a JSON answer. An error answer is a *Problem.
func (c *Client) Try(method, path string, body, into any, header ...string) error {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
		header = append([]string{"Content-Type", "application/json"}, header...)
	}
	resp, text, err := c.Do(method, path, r, header...)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		p := &Problem{Status: resp.StatusCode}
		if json.Unmarshal(text, p) != nil {
			p.Message = string(text)
		}
		return p
	}
	if into == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s answered %q: %w", method, path, text, err)
	}
	return nil
}

// API is Try that must succeed.
func (c *Client) API(method, path string, body, into any, header ...string) {
	c.t.Helper()
	if err := c.Try(method, path, body, into, header...); err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// Refused is Try that must fail, with this status and code; 0 and "" = any.
func (c *Client) Refused(status int, code, method, path string, body any, header ...string) *Problem {
	c.t.Helper()
	err := c.Try(method, path, body, nil, header...)
	p, ok := err.(*Problem) //nolint:errorlint // Try returns it bare
	if !ok || status != 0 && p.Status != status || (code != "" && p.Code != code) {
		c.t.Fatalf("%s %s: got %v, want %d %s", method, path, err, status, code)
	}
	return p
}

// MakeOwner makes the first user with the one-time token, and a token of that user's.
func (c *Client) MakeOwner(setup string) {
	c.t.Helper()
	c.API("POST", "/setup", map[string]string{"token": setup, "name": "Mika", "email": "mika@example.com", "password": Password, "team": "Harbour"}, nil)
	c.Token = c.NewToken("mika@example.com", Password)
	var teams struct{ Items []struct{ Slug string } }
	c.API("GET", "/teams", nil, &teams)
	c.Team = teams.Items[0].Slug
}

// NewToken signs in with a password and makes an API token.
func (c *Client) NewToken(email, password string) string {
	c.t.Helper()
	b, err := json.Marshal(map[string]string{"email": email, "password": password})
	if err != nil {
		c.t.Fatal(err)
	}
	anon := &Client{URL: c.URL, t: c.t}
	resp, text, err := anon.Do("POST", "/login", bytes.NewReader(b), "Content-Type", "application/json")
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("login: %v %s", err, text)
	}
	var cookies []string
	for _, k := range resp.Cookies() {
		cookies = append(cookies, k.Name+"="+k.Value)
	}
	var made struct{ Value string }
	anon.API("POST", "/me/tokens", map[string]string{"name": "test"}, &made, "Cookie", strings.Join(cookies, "; "))
	return made.Value
}

// As is a client of the same instance with another token and the same team.
func (c *Client) As(token string) *Client {
	return &Client{URL: c.URL, Token: token, Team: c.Team, t: c.t}
}
