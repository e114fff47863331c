package notify

import (
	"cmp"
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	webpush "github.com/SherClockHolmes/webpush-go"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Subscription is a browser that receives push messages through its push service.
type Subscription struct {
	ID, UserID   string
	Endpoint     string // a secret between browser, push service and us
	P256dh, Auth string
	Label        string // the browser in words
	CreatedAt    int64
	UsedAt       int64 // when a message was last taken
}

// Target is a browser of a member, with the member's rules.
type Target struct {
	SubscriptionID, UserID string
	Rules                  Rules
}

// Whose work a rule is about.
const (
	Off  = "off"
	Mine = "mine" // work I started
	All  = "all"
)

// Rules say, by kind, about whose work a user's browsers are notified.
type Rules map[string]string

// DefaultRules are those of who chose none: what needs me, of my own work.
func DefaultRules() Rules {
	return Rules{Question: Mine, Failed: Mine, Stuck: Mine, Finished: Off, Review: Mine, Budget: Mine}
}

func (r Rules) wants(kind string, mine bool) bool {
	if r == nil {
		r = DefaultRules()
	}
	switch r[kind] {
	case All:
		return true
	case Mine:
		return mine
	}
	return false
}

// RulesOf returns a user's rules, complete.
func (s *Service) RulesOf(ctx context.Context, userID string) (Rules, error) {
	r, err := s.cfg.Store.Rules(ctx, userID)
	if err != nil {
		return nil, err
	}
	out := DefaultRules()
	for k, v := range r {
		if slices.Contains(Kinds, k) {
			out[k] = v
		}
	}
	return out, nil
}

// SetRules keeps a user's rules; kinds that are not named stay as they are. Errors: invalid_rule.
func (s *Service) SetRules(ctx context.Context, userID string, r Rules) (Rules, error) {
	for k, v := range r {
		if !slices.Contains(Kinds, k) || v != Off && v != Mine && v != All {
			return nil, fault.New(fault.Invalid, "invalid_rule", "A rule says off, mine or all for one of %s.", strings.Join(Kinds, ", "))
		}
	}
	now, err := s.RulesOf(ctx, userID)
	if err != nil {
		return nil, err
	}
	maps.Copy(now, r)
	return now, s.cfg.Store.PutRules(ctx, userID, now, s.now())
}

// maxSubscriptions bounds the browsers of one user; the oldest goes when there is one more.
const maxSubscriptions = 20

// Subscribe keeps a browser. Errors: invalid_subscription, and those of the address.
func (s *Service) Subscribe(ctx context.Context, sub Subscription) (Subscription, error) {
	if err := s.cfg.Client.Check(sub.Endpoint); err != nil {
		return Subscription{}, err
	}
	point, err := decodeKey(sub.P256dh)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(point)
	}
	auth, aerr := decodeKey(sub.Auth)
	if err != nil || aerr != nil || len(auth) != 16 {
		return Subscription{}, fault.New(fault.Invalid, "invalid_subscription", "The browser's keys are not those of a push subscription.")
	}
	if sub.Label = strings.TrimSpace(sub.Label); !utf8.ValidString(sub.Label) || len(sub.Label) > 200 {
		sub.Label = ""
	}
	sub.ID, sub.CreatedAt = id.New("psh"), s.now()
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if err := s.cfg.Store.PutSubscription(ctx, sub); err != nil {
			return err
		}
		all, err := s.cfg.Store.Subscriptions(ctx, sub.UserID)
		for err == nil && len(all) > maxSubscriptions {
			err, all = s.cfg.Store.DeleteSubscription(ctx, all[0].ID), all[1:]
		}
		return err
	})
	return sub, err
}

// decodeKey takes base64 with either alphabet, padded or not, as browsers give it.
func decodeKey(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(s), "=")
	return base64.RawURLEncoding.DecodeString(s)
}

// Subscriptions returns a user's browsers, oldest first.
func (s *Service) Subscriptions(ctx context.Context, userID string) ([]Subscription, error) {
	return s.cfg.Store.Subscriptions(ctx, userID)
}

// Unsubscribe forgets one of a user's browsers. Errors: not_found.
func (s *Service) Unsubscribe(ctx context.Context, userID, subscriptionID string) error {
	if _, err := s.subscriptionOf(ctx, userID, subscriptionID); err != nil {
		return err
	}
	return s.cfg.Store.DeleteSubscription(ctx, subscriptionID)
}

func (s *Service) subscriptionOf(ctx context.Context, userID, subscriptionID string) (Subscription, error) {
	sub, err := s.cfg.Store.Subscription(ctx, subscriptionID)
	if err == nil && sub.UserID != userID {
		err = fault.New(fault.NotFound, "not_found", "There is no such browser.")
	}
	return sub, err
}

// TestPush sends a message to one of a user's browsers now. Errors: not_found, push_failed.
func (s *Service) TestPush(ctx context.Context, userID, subscriptionID string) error {
	sub, err := s.subscriptionOf(ctx, userID, subscriptionID)
	if err != nil {
		return err
	}
	body, err := marshal(pushMessage{Title: "Parawork reaches this browser", Body: "You will be notified here when something needs you.", Tag: "test", Path: "/"})
	if err != nil {
		return err
	}
	if end := s.push(ctx, sub, body, Question); end.state != Delivered {
		return fault.New(fault.Unavailable, "push_failed", "The push service of this browser did not take the message: %s.", end.err)
	}
	return nil
}

// pushMessage is what the web app's service worker shows.
type pushMessage struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Tag   string `json:"tag"`  // messages with the same tag take each other's place
	Path  string `json:"path"` // where a click leads
	Item  string `json:"item,omitempty"`
	Kind  string `json:"kind,omitempty"`
	At    int64  `json:"at,omitempty"`
}

func (s *Service) pushBody(it Item) string {
	where := it.WorkspaceName
	if it.WorkspaceKey != "" {
		where = it.WorkspaceKey + " " + where
	}
	tag := cmp.Or(it.WorkspaceID, it.ID)
	body, err := marshal(pushMessage{Title: cut(it.Sentence(), 300), Body: cut(where, 300), Tag: tag, Path: s.path(it), Item: it.ID, Kind: it.Kind, At: it.Since})
	if err != nil {
		return "{}"
	}
	return body
}

func (s *Service) tryPush(ctx context.Context, d Delivery) outcome {
	sub, err := s.cfg.Store.Subscription(ctx, d.SubscriptionID)
	switch {
	case fault.Is(err, fault.NotFound):
		return outcome{state: Dropped, err: "the browser was forgotten"}
	case err != nil:
		return outcome{state: Pending, err: "the browser could not be read"}
	}
	if strings.HasPrefix(d.ItemID, announced) {
		return s.push(ctx, sub, d.Body, d.Kind)
	}
	// An item that was settled in the meantime is not sent.
	items, err := s.cfg.Inbox.Items(ctx, d.TeamID)
	if err != nil {
		return outcome{state: Pending, err: "the inbox could not be read"}
	}
	if !slices.ContainsFunc(items, func(it Item) bool { return it.ID == d.ItemID }) {
		return outcome{state: Dropped, err: "it was settled meanwhile"}
	}
	return s.push(ctx, sub, d.Body, d.Kind)
}

// push hands one message to a browser's push service, encrypted for the browser (RFC 8291) and signed by us (RFC 8292).
func (s *Service) push(ctx context.Context, sub Subscription, body, kind string) outcome {
	keys, err := s.pushKeys(ctx)
	if err != nil {
		s.cfg.Log.Error("key for push messages unusable", "error", err)
		return outcome{state: Pending, err: "the server's key for push messages cannot be used"}
	}
	urgency := webpush.UrgencyNormal
	if kind == Question {
		urgency = webpush.UrgencyHigh
	}
	contact := s.cfg.PublicURL
	if !strings.HasPrefix(contact, "https://") {
		contact = "parawork@localhost.invalid" // becomes mailto:
	}
	resp, err := webpush.SendNotificationWithContext(ctx, []byte(body), &webpush.Subscription{Endpoint: sub.Endpoint, Keys: webpush.Keys{Auth: sub.Auth, P256dh: sub.P256dh}},
		&webpush.Options{HTTPClient: s.cfg.Client, Subscriber: contact, TTL: 12 * 3600, Urgency: urgency, VAPIDPublicKey: keys.Public, VAPIDPrivateKey: keys.Private})
	if err != nil {
		if errors.Is(err, egress.ErrRefused) {
			return outcome{state: GivenUp, err: egress.Words(err)}
		}
		return outcome{state: Pending, err: egress.Words(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10)
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone { // the browser took its subscription back
		if err := s.cfg.Store.DeleteSubscription(context.WithoutCancel(ctx), sub.ID); err != nil {
			s.cfg.Log.Warn("push subscription not deleted", "error", err)
		}
		return outcome{state: Dropped, status: resp.StatusCode, err: "the browser does not take messages any more"}
	}
	end := judge(resp)
	if end.state == Delivered {
		if err := s.cfg.Store.UsedSubscription(ctx, sub.ID, s.now()); err != nil {
			s.cfg.Log.Debug("use of a push subscription not recorded", "error", err)
		}
	}
	return end
}

// pushKeys are the server's own, which its messages are signed with. Browsers know the public one.
type pushKeys struct {
	Public  string `json:"public"`
	Private string `json:"private"`
}

const pushKeyName = "push keys"

// PushKey returns the public key browsers subscribe with.
func (s *Service) PushKey(ctx context.Context) (string, error) {
	k, err := s.pushKeys(ctx)
	if err != nil {
		return "", err
	}
	return k.Public, nil
}

// pushKeys returns the keys, made at first use and kept sealed.
func (s *Service) pushKeys(ctx context.Context) (*pushKeys, error) {
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	if s.keys != nil {
		return s.keys, nil
	}
	var k pushKeys
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		kept, err := s.cfg.Store.Setting(ctx, pushKeyName)
		if err == nil {
			raw, err := s.cfg.Secrets.Unseal(pushKeyName, kept)
			if err != nil {
				return err
			}
			return json.Unmarshal([]byte(raw), &k)
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		if k.Private, k.Public, err = webpush.GenerateVAPIDKeys(); err != nil {
			return err
		}
		raw, err := marshal(k)
		if err != nil {
			return err
		}
		sealed, err := s.cfg.Secrets.Seal(pushKeyName, raw)
		if err != nil {
			return err
		}
		return s.cfg.Store.SetSetting(ctx, pushKeyName, sealed)
	})
	if err != nil {
		return nil, err
	}
	s.keys = &k
	return s.keys, nil
}
