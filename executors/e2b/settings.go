package e2b

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
)

// Settings say which E2B is used, and how. They are asked for again before each use (Config.Settings), so that what people change holds
// at once.
type Settings struct {
	Region   string // what people call the region; "" = there is only one
	ProbeURL string // what browsers ask to measure how far it is; "" = the control plane

	APIKey     string // "" = the place is off
	Domain     string // "" = e2b.app
	APIURL     string // of the control plane; "" = from the domain
	SandboxURL string // of every sandbox's envd; "" = from the domain
	Debug      bool   // no control plane: one envd on this machine, as E2B_DEBUG means it for E2B's own clients

	Template string // of sandboxes of the default size; other sizes have templates of their own: see TemplateOf
	CPUs     int    // default size; 0 = 2
	MemoryMB int    // 0 = 2048

	MaxRun time.Duration // the longest one run may last, whatever the plan allows; 0 = 24 h

	PriceVCPU int64 // nano-USD a vCPU and second; 0 = E2B's own price
	PriceGiB  int64 // nano-USD a GiB of memory and second; 0 = E2B's own price

	RequestTimeout time.Duration     // of one question; 0 = 60 s
	Retries        int               // of a question that may be asked again; negative = none, 0 = 3
	Proxy          string            // http(s) or socks5 proxy to E2B; "" = as the server's environment says, "none" = none
	Headers        map[string]string // sent with every request
}

// E2B's prices, checked against their pricing page on 2026-08-06.
const (
	priceVCPU = 14_000 // 0.000014 USD
	priceGiB  = 4_500  // 0.0000045 USD
)

const (
	defaultDomain   = "e2b.app"
	defaultTemplate = "parawork-base"
	debugAPI        = "http://localhost:3000"
	debugEnvd       = "http://localhost:49983"
	debugSandbox    = "debug_sandbox_id"
)

// FromEnv fills what is not set from the variables E2B's own clients know.
func (s Settings) FromEnv(env func(string) string) Settings {
	for name, dst := range map[string]*string{"E2B_API_KEY": &s.APIKey, "E2B_DOMAIN": &s.Domain, "E2B_API_URL": &s.APIURL, "E2B_SANDBOX_URL": &s.SandboxURL} {
		if *dst == "" {
			*dst = strings.TrimSpace(env(name))
		}
	}
	if !s.Debug {
		s.Debug = strings.EqualFold(env("E2B_DEBUG"), "true")
	}
	return s
}

// Normal returns the settings complete: with defaults, trimmed. An error names what cannot be.
func (s Settings) Normal() (Settings, error) {
	s.APIKey = strings.TrimSpace(s.APIKey)
	s.Domain = cmp.Or(strings.ToLower(strings.Trim(strings.TrimSpace(s.Domain), ".")), defaultDomain)
	for what, u := range map[string]*string{"API URL": &s.APIURL, "sandbox URL": &s.SandboxURL} {
		*u = strings.TrimRight(strings.TrimSpace(*u), "/")
		if *u == "" {
			continue
		}
		p, err := url.Parse(*u)
		if err != nil || p.Scheme != "http" && p.Scheme != "https" || p.Host == "" || p.User != nil || p.RawQuery != "" || p.Fragment != "" {
			return s, fmt.Errorf("the %s must be an address such as https://api.example.com", what)
		}
	}
	if s.APIURL == "" {
		s.APIURL = "https://api." + s.Domain
		if s.Debug {
			s.APIURL = debugAPI
		}
	}
	if s.Template = strings.ToLower(strings.TrimSpace(s.Template)); s.Template == "" {
		s.Template = defaultTemplate
	}
	s.CPUs, s.MemoryMB = cmp.Or(s.CPUs, 2), cmp.Or(s.MemoryMB, 2048)
	s.MaxRun, s.RequestTimeout = cmp.Or(s.MaxRun, 24*time.Hour), cmp.Or(s.RequestTimeout, 60*time.Second)
	s.PriceVCPU, s.PriceGiB = cmp.Or(s.PriceVCPU, priceVCPU), cmp.Or(s.PriceGiB, priceGiB)
	switch {
	case s.Retries == 0:
		s.Retries = 3
	case s.Retries < 0:
		s.Retries = 0
	}
	if _, err := s.proxy(); err != nil {
		return s, err
	}
	if strings.ContainsFunc(s.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return s, fmt.Errorf("the API key has characters that no key has")
	}
	return s, nil
}

// proxy says which proxy requests go through.
func (s Settings) proxy() (func(*http.Request) (*url.URL, error), error) {
	switch s.Proxy {
	case "":
		return http.ProxyFromEnvironment, nil
	case "none":
		return nil, nil
	}
	u, err := url.Parse(s.Proxy)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return nil, fmt.Errorf("the proxy to E2B must be an address such as http://proxy.example.com:3128, or none")
	}
	return http.ProxyURL(u), nil
}

// same reports whether the same client serves both.
func (s Settings) same(t Settings) bool {
	return s.APIKey == t.APIKey && s.Domain == t.Domain && s.APIURL == t.APIURL && s.SandboxURL == t.SandboxURL && s.Debug == t.Debug &&
		s.RequestTimeout == t.RequestTimeout && s.Retries == t.Retries && s.Proxy == t.Proxy && maps.Equal(s.Headers, t.Headers)
}

// on reports whether there is an E2B to be used.
func (s Settings) on() bool { return s.APIKey != "" || s.Debug }

// ladder are the sizes that are offered beside the default one.
var ladder = []executors.Size{{CPUs: 1, MemoryMB: 1024}, {CPUs: 2, MemoryMB: 2048}, {CPUs: 4, MemoryMB: 4096}, {CPUs: 8, MemoryMB: 8192}}

// Sizes are what can be chosen, the smallest first, with prices. The settings are normal. Whether a size's template is there is not said.
func (s Settings) Sizes() []executors.Size {
	return executors.SizesWith(s.CPUs, int64(s.MemoryMB), ladder, s.PriceNano)
}

// PriceNano is what an hour of a size costs, in nano-USD: E2B asks for what is allocated, whether it is used or not.
func (s Settings) PriceNano(cpus int, memoryMB int64) int64 {
	return 3600*s.PriceVCPU*int64(cpus) + 3600*s.PriceGiB*memoryMB/1024
}

// TemplateOf names the template sandboxes of a size are made from: a template fixes the size. The default size has the plain name,
// another one its numbers behind it, as in parawork-base-4x4096.
func (s Settings) TemplateOf(cpus int, memoryMB int64) string {
	if cpus == 0 || cpus == s.CPUs && memoryMB == int64(s.MemoryMB) {
		return s.Template
	}
	name, tag, tagged := strings.Cut(s.Template, ":")
	name = fmt.Sprintf("%s-%dx%d", name, cpus, memoryMB)
	if tagged {
		name += ":" + tag
	}
	return name
}
