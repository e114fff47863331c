// Package fetch is the guest's program that reads a page of the web as a text. It runs as every program of the sandbox does, so that it
// reaches what the sandbox may reach and no more.
package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/safetext"
)

const (
	maxBody = 5 << 20 // bytes of a page that are read
	maxKind = 200     // characters of its media type
	within  = 30 * time.Second

	policyWords = "Parawork: " // begins what the sandbox's proxy says when it refuses
)

// Config configures a fetch.
type Config struct {
	URL  string
	Most int // bytes of text
	Out  io.Writer
}

// Run fetches a page and prints it. The error is that of Out.
func Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f, page := get(ctx, cfg.URL)
	if most := min(max(cfg.Most, 0), guest.MaxFetchedText); len(page) > most {
		for most > 0 && !utf8.RuneStart(page[most]) {
			most--
		}
		page, f.Cut = page[:most], true
	}
	head, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cfg.Out, "%s\n%s", head, page)
	return err
}

// errMoves ends a chain of redirects.
var errMoves = fmt.Errorf("the address redirects more than %d times", guest.MaxFetchedMoves)

// usable reports why an address cannot be fetched; "" = it can.
func usable(u *url.URL) string {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "only http and https can be fetched"
	case u.Hostname() == "":
		return "the address names no host"
	case u.User != nil:
		return "an address with a user name or a password is not fetched"
	}
	return ""
}

// notMetadata refuses the addresses at which clouds give a machine its credentials: where no proxy stands between, a page could redirect there.
// Addresses of the machine itself stay open: programs under development listen there.
func notMetadata(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := at.Addr().Unmap(); ip.IsLinkLocalUnicast() || slices.Contains(metadata, ip) {
		return fmt.Errorf("%s is an address of a cloud's metadata, which is not fetched", ip)
	}
	return nil
}

// metadata are such addresses that are not link-local: of AWS and Alibaba Cloud.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}

func get(ctx context.Context, address string) (f guest.Fetched, page string) {
	f.URL = address
	u, err := url.Parse(address)
	if err != nil {
		f.Error = "the address cannot be read"
		return f, ""
	}
	if f.Error = usable(u); f.Error != "" {
		return f, ""
	}
	dialer := &net.Dialer{Timeout: within, Control: notMetadata}
	transport := &http.Transport{DialContext: dialer.DialContext, Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: within, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > guest.MaxFetchedMoves {
			return errMoves
		}
		if why := usable(r.URL); why != "" {
			return errors.New("it redirects to another address, and " + why)
		}
		if !strings.EqualFold(r.URL.Hostname(), u.Hostname()) { // a rule may say something else about that host
			return fmt.Errorf("it redirects to another host: fetch %s if you want to go there", safetext.Cut(safetext.OneLine(r.URL.String()), 1000))
		}
		return nil
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		f.Error = "the address cannot be read"
		return f, ""
	}
	r.Header.Set("User-Agent", "parawork-fetch/1 (+https://github.com/parawork/parawork)")
	r.Header.Set("Accept", "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.5")
	resp, err := client.Do(r)
	if err != nil {
		failure(&f, err)
		return f, ""
	}
	defer resp.Body.Close()
	f.URL, f.Status = resp.Request.URL.String(), resp.StatusCode
	if len(f.URL) > guest.MaxFetchedURL {
		f.URL = f.URL[:guest.MaxFetchedURL]
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil && len(body) == 0 {
		failure(&f, err)
		return f, ""
	}
	f.Cut = err != nil || len(body) > maxBody
	body = body[:min(len(body), maxBody)]
	f.Bytes = max(int64(len(body)), resp.ContentLength)
	if words, said := strings.CutPrefix(string(body[:min(len(body), 1000)]), policyWords); said && resp.StatusCode == http.StatusForbidden {
		f.Error, f.Refused = strings.TrimSpace(words), true // the proxy's answer to a request over plain http
		return f, ""
	}
	page = text(&f, resp, body)
	return f, page
}

// failure says why a page could not be fetched, in the policy's words where the sandbox may not reach it.
func failure(f *guest.Fetched, err error) {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if words, said := strings.CutPrefix(err.Error(), policyWords); said { // of the answer to CONNECT
		f.Error, f.Refused = words, true
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		f.Error = fmt.Sprintf("there was no answer within %s", within)
		return
	}
	f.Error = err.Error()
}

// text is a page as a text.
func text(f *guest.Fetched, resp *http.Response, body []byte) string {
	sent := resp.Header.Get("Content-Type")
	if sent == "" {
		sent = http.DetectContentType(body)
	}
	kind, params, err := mime.ParseMediaType(sent)
	if err != nil {
		kind = strings.TrimSpace(strings.SplitN(sent, ";", 2)[0])
	}
	f.MIME = safetext.Cut(strings.ToLower(kind), maxKind)
	switch {
	case f.MIME == "text/html" || f.MIME == "application/xhtml+xml":
		var out string
		f.Title, out = markdown(decoded(body, params["charset"]), resp.Request.URL)
		return out
	case isText(f.MIME) && bytes.IndexByte(body[:min(len(body), 8<<10)], 0) < 0:
		return decoded(body, params["charset"])
	}
	return ""
}

func isText(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/yaml", "application/x-yaml", "application/toml", "application/x-sh", "application/sql":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml")
}

// decoded is a text in UTF-8. Of other encodings it knows Latin-1 alone.
func decoded(body []byte, charset string) string {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "windows-1252":
		if !utf8.Valid(body) {
			runes := make([]rune, len(body))
			for i, b := range body {
				runes[i] = rune(b)
			}
			return string(runes)
		}
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}
