package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// webhook measures how soon webhooks of the payment service are acknowledged, stored on disk each, while 200 come in a second and are
// acted on. They come when they come: one that is late holds no other up.
func (b *bench) webhook() error {
	const perSecond, secret = 200, "whsec_bench0123456789bench0123456789"
	dir := filepath.Join(b.dir, "webhook")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	// The service is asked about each customer; it knows none.
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such customer"}}`)
	}))
	defer service.Close()
	file := filepath.Join(dir, "config.json")
	conf := fmt.Sprintf(`{"dataDir":%q,"server":{"listen":"127.0.0.1:0"},"billing":{"stripe":{"secretKey":"sk_test_bench","webhookSecrets":[%q],"apiBase":%q}}}`, filepath.Join(dir, "data"), secret, service.URL)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return err
	}
	p, err := start(nil, nil, b.binary, "serve", "--config", file)
	if err != nil {
		return err
	}
	defer p.stop()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	send := func(i int) (time.Duration, error) {
		body := fmt.Appendf(nil, `{"id":"evt_bench_%d","object":"event","type":"invoice.paid","created":%d,"livemode":false,"data":{"object":{"id":"in_%d","object":"invoice","customer":"cus_bench_%d"}}}`,
			i, time.Now().Unix(), i, i%50)
		at := time.Now().Unix()
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", at, body)
		r, err := http.NewRequest(http.MethodPost, p.url+"/webhooks/stripe", bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", at, hex.EncodeToString(mac.Sum(nil))))
		t0 := time.Now()
		resp, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("a webhook was answered with %d", resp.StatusCode)
		}
		return time.Since(t0), err
	}
	for i := range 20 { // connections, and what is made once
		if _, err := send(-1 - i); err != nil {
			return err
		}
	}
	n := b.size(4000, 200)
	took := make([]time.Duration, n)
	failed := make([]error, n)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	t0 := time.Now()
	for i := range n {
		<-tick.C
		all.Go(func() { took[i], failed[i] = send(i) })
	}
	rate := float64(n) / time.Since(t0).Seconds()
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	slices.Sort(took)
	ms := us(p99(took)) / 1e3
	b.figure(fmt.Sprintf("webhook acknowledged, p99 at %.0f/s, ms", rate), f1(ms), "50", ms/50, "<= 1", ms <= 50)
	b.figure("webhook acknowledged, median, ms", f1(us(took[len(took)/2])/1e3), "-", 1, "none", true)
	return nil
}
