package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/internal/fault"
)

const (
	codeUpdate      = "runner_update_failed"
	downloadsPath   = "/api/v1/runner/downloads"
	maxProgram      = 512 << 20
	downloadTimeout = 15 * time.Minute
)

// client returns the HTTP client for the server: for the enrolment and for downloads.
func (p *Program) client(proxy, ca string) (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	roots, err := tunnel.Roots(ca)
	if err != nil {
		return nil, fault.New(fault.Invalid, codeFlags, "--ca: %v.", err)
	}
	t.TLSClientConfig.RootCAs = roots
	if ask, err := proxyOf(proxy); err != nil {
		return nil, err
	} else if ask != nil {
		t.Proxy = ask
	}
	t.ResponseHeaderTimeout = 30 * time.Second
	return &http.Client{Transport: t}, nil
}

// proxyOf parses --proxy; nil when it is not given.
func proxyOf(text string) (func(*http.Request) (*url.URL, error), error) {
	if text == "" {
		return nil, nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Invalid, codeFlags, "--proxy must be the address of a proxy, such as http://proxy.example.com:3128.")
	}
	return http.ProxyURL(u), nil
}

// offered is a program the server offers.
type offered struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	File      string `json:"file"`
	URL       string `json:"url"`
	Version   string `json:"version"`
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size"`
	Available bool   `json:"available"`
	Reason    string `json:"reason"`
}

// update replaces this program by the one the server offers.
func (p *Program) update(ctx context.Context, args []string) error {
	var w which
	fl := flag.NewFlagSet("parawork runner update", flag.ContinueOnError)
	w.flags(fl)
	if _, err := p.parse(fl, args, 0); err != nil {
		return err
	}
	id, err := p.find(w)
	if err != nil {
		return err
	}
	if strings.HasPrefix(id.Server, "http://") && !loopback(id.Server) {
		return fault.New(fault.Invalid, codeUpdate, "The connection to %s is not encrypted, so what it offers could come from anybody. Download the program in your browser and compare its checksum.", id.Server)
	}
	client, err := p.client(id.Proxy, id.CA)
	if err != nil {
		return err
	}
	self, err := p.Self()
	if err != nil {
		return err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	o, err := lookOffered(ctx, client, id.Server)
	if err != nil {
		return err
	}
	if have, err := sumOf(self); err == nil && have == o.SHA256 {
		p.say("This program is already the one the server offers: %s.", p.Version)
		return nil
	}
	if err := p.fetch(ctx, client, id, o, self); err != nil {
		return err
	}
	p.say("Updated %s.", p.short(self))
	if pid := holder(id.Dir); pid > 0 {
		p.say("The running program (process %d) is still the old one. Restart it: parawork runner stop%s, then start it as before. What runs in sandboxes goes on.", pid, namely(id))
	}
	return nil
}

// lookOffered asks which program the server offers for this machine.
func lookOffered(ctx context.Context, client *http.Client, server string) (offered, error) {
	body, err := get(ctx, client, server+downloadsPath)
	if err != nil {
		return offered{}, err
	}
	defer body.Close()
	var list struct {
		Items []offered `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&list); err != nil {
		return offered{}, fault.Wrap(err, fault.Unavailable, codeUpdate, "The server's list of programs cannot be read.")
	}
	for _, o := range list.Items {
		if o.OS != runtime.GOOS || o.Arch != runtime.GOARCH {
			continue
		}
		if !o.Available {
			return o, fault.New(fault.Unavailable, codeUpdate, "The server has no program for %s/%s now: %s", o.OS, o.Arch, policy.Clean(o.Reason, 300))
		}
		if raw, err := hex.DecodeString(o.SHA256); err != nil || len(raw) != sha256.Size || o.File == "" || strings.ContainsAny(o.File, "/\\?#%") {
			return o, fault.New(fault.Unavailable, codeUpdate, "The server's list of programs is invalid.")
		}
		return o, nil
	}
	return offered{}, fault.New(fault.Unavailable, codeUpdate, "The server offers no program for %s/%s.", runtime.GOOS, runtime.GOARCH)
}

// fetch downloads a program, compares its checksum, runs it to see its version, and replaces this one with it.
func (p *Program) fetch(ctx context.Context, client *http.Client, id *identity.Identity, o offered, self string) error {
	body, err := get(ctx, client, id.Server+downloadsPath+"/"+url.PathEscape(o.File))
	if err != nil {
		return err
	}
	defer body.Close()
	next := self + ".new"
	sum := sha256.New()
	if err := putProgram(io.TeeReader(io.LimitReader(body, maxProgram), sum), next); err != nil {
		return fault.Wrap(err, fault.Unavailable, codeUpdate, "The program cannot be written next to this one, in %s: %v. Run the update as the user who installed it.", filepath.Dir(self), err)
	}
	defer os.Remove(next) // already gone when all went well
	if got := hex.EncodeToString(sum.Sum(nil)); got != o.SHA256 {
		return fault.New(fault.Unavailable, codeUpdate, "The download is not what the server says it is: its checksum is %s, not %s. Nothing was changed.", got, o.SHA256)
	}
	if out, err := p.Exec(ctx, next, "version"); err != nil || !strings.Contains(out, "parawork") {
		return fault.New(fault.Unavailable, codeUpdate, "The program the server offers does not run on this machine (%v). Nothing was changed.", said(out, err))
	}
	return os.Rename(next, self)
}

func get(ctx context.Context, client *http.Client, at string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, codeUpdate, "The server cannot be reached: %v.", err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		_ = resp.Body.Close()
		var e struct{ Message string }
		if json.Unmarshal(bytes.TrimSpace(text), &e) != nil || e.Message == "" {
			e.Message = fmt.Sprintf("it answered %s", resp.Status)
		}
		return nil, fault.New(fault.Unavailable, codeUpdate, "The server does not provide the program: %s", policy.Clean(e.Message, 300))
	}
	return resp.Body, nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// loopback reports whether an address is this machine's own.
func loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
