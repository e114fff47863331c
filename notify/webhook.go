package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
)

// Formats of what is sent to a webhook.
const (
	JSON    = "json"
	Slack   = "slack"   // {"text"}: Slack, Mattermost, Rocket.Chat
	Discord = "discord" // {"content"}
)

// Webhook is an address that receives a team's notifications. The address itself is stored sealed, since many carry a token; Shown
// is the part of it that people may see.
type Webhook struct {
	ID, TeamID string
	Name       string
	Shown      string
	Format     string
	Kinds      []string
	Enabled    bool
	Why        string // why it was switched off by itself, "" otherwise
	SecretID   string
	CreatedBy  string
	CreatedAt  int64
	UpdatedAt  int64
	FailedAt   int64 // since when deliveries fail, 0 while they arrive
}

// WebhookChange makes or changes a webhook; nil leaves a thing as it is.
type WebhookChange struct {
	Name, URL, Format *string
	Kinds             *[]string
	Enabled           *bool
}

// sealed is the secret part of a webhook.
type sealed struct {
	URL string `json:"url"`
	Key string `json:"key"` // what deliveries are signed with
}

// maxWebhooks bounds those of one team.
const maxWebhooks = 20

func secretName(webhookID string) string { return "webhook " + webhookID }

// AddWebhook keeps a new webhook and returns the key its deliveries are signed with, which is shown once.
func (s *Service) AddWebhook(ctx context.Context, teamID, by string, c WebhookChange) (w Webhook, key string, err error) {
	w = Webhook{ID: id.New("whk"), TeamID: teamID, Format: JSON, Kinds: slices.Clone(Kinds), Enabled: true, CreatedBy: by, CreatedAt: s.now()}
	w.UpdatedAt = w.CreatedAt
	if c.URL == nil {
		return w, "", fault.New(fault.Invalid, "invalid_url", "Enter an address such as https://example.com/hook.").With("field", "url")
	}
	if err := s.change(&w, c); err != nil {
		return w, "", err
	}
	key = newKey()
	value, err := marshal(sealed{URL: strings.TrimSpace(*c.URL), Key: key})
	if err != nil {
		return w, "", err
	}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.cfg.Store.Webhooks(ctx, teamID)
		if err != nil {
			return err
		}
		if len(all) >= maxWebhooks {
			return fault.New(fault.Conflict, "too_many_webhooks", "The team has %d webhooks, which is the most. Delete one that is not used.", len(all))
		}
		if w.SecretID, err = s.cfg.Secrets.KeepTeamSecret(ctx, teamID, secretName(w.ID), value, by); err != nil {
			return err
		}
		return s.cfg.Store.InsertWebhook(ctx, w)
	})
	return w, key, err
}

// newKey makes a key deliveries are signed with.
func newKey() string {
	var raw [24]byte
	rand.Read(raw[:])
	return "whsec_" + base64.RawURLEncoding.EncodeToString(raw[:])
}

// sameOrigin reports whether two addresses lead to the same scheme, host and port.
func sameOrigin(a, b string) bool {
	origin := func(raw string) (scheme, host, port string, err error) {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil {
			return "", "", "", err
		}
		port = u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		return u.Scheme, strings.ToLower(u.Hostname()), port, nil
	}
	s1, h1, p1, err1 := origin(a)
	s2, h2, p2, err2 := origin(b)
	return err1 == nil && err2 == nil && s1 == s2 && h1 == h2 && p1 == p2
}

// ChangeWebhook changes a webhook. Switching it on again forgets why it was switched off. An address of another origin gets a key of its own,
// which is returned and shown once: the new receiver must not get the key that the previous receiver trusts.
func (s *Service) ChangeWebhook(ctx context.Context, webhookID, by string, c WebhookChange) (w Webhook, fresh string, err error) {
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		fresh = ""
		if w, err = s.cfg.Store.Webhook(ctx, webhookID); err != nil {
			return err
		}
		if err := s.change(&w, c); err != nil {
			return err
		}
		if c.URL != nil {
			was, key, err := s.open(ctx, w)
			if err != nil {
				return err
			}
			if !sameOrigin(was, *c.URL) {
				fresh = newKey()
				key = fresh
			}
			value, err := marshal(sealed{URL: strings.TrimSpace(*c.URL), Key: key})
			if err != nil {
				return err
			}
			old := w.SecretID
			if w.SecretID, err = s.cfg.Secrets.KeepTeamSecret(ctx, w.TeamID, secretName(w.ID), value, by); err != nil {
				return err
			}
			if err := s.cfg.Store.UpdateWebhook(ctx, w); err != nil {
				return err
			}
			if err := s.cfg.Secrets.DropTeamSecret(ctx, old, w.TeamID); err != nil {
				return err
			}
		}
		w.UpdatedAt = s.now()
		return s.cfg.Store.UpdateWebhook(ctx, w)
	})
	return w, fresh, err
}

// change checks what is asked for and puts it into w.
func (s *Service) change(w *Webhook, c WebhookChange) error {
	bad := func(field, code, format string, args ...any) error {
		return fault.New(fault.Invalid, code, format, args...).With("field", field)
	}
	if c.URL != nil {
		raw := strings.TrimSpace(*c.URL)
		if err := s.cfg.Client.Check(raw); err != nil {
			if f, ok := errors.AsType[*fault.Error](err); ok {
				return f.With("field", "url")
			}
			return err
		}
		w.Shown = shownURL(raw)
		w.FailedAt, w.Why = 0, ""
	}
	if c.Name != nil {
		w.Name = strings.TrimSpace(*c.Name)
	}
	w.Name = cmp.Or(w.Name, w.Shown)
	if len(w.Name) > 200 || !utf8.ValidString(w.Name) {
		return bad("name", "invalid_name", "A name has at most 200 characters.")
	}
	if c.Format != nil {
		w.Format = *c.Format
	}
	if w.Format != JSON && w.Format != Slack && w.Format != Discord {
		return bad("format", "invalid_format", "The format is json, slack or discord.")
	}
	if c.Kinds != nil {
		w.Kinds = slices.Compact(slices.Sorted(slices.Values(*c.Kinds)))
	}
	if len(w.Kinds) == 0 {
		return bad("kinds", "invalid_kinds", "Choose at least one kind of notification.")
	}
	for _, k := range w.Kinds {
		if !slices.Contains(Kinds, k) {
			return bad("kinds", "invalid_kinds", "The kinds of notifications are %s.", strings.Join(Kinds, ", "))
		}
	}
	if c.Enabled != nil {
		w.Enabled = *c.Enabled
		if w.Enabled {
			w.Why, w.FailedAt = "", 0
		}
	}
	return nil
}

// shownURL is what may be seen of an address: where it leads, not the token in its path.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	rest := u.EscapedPath()
	if u.RawQuery != "" {
		rest += "?" + u.RawQuery
	}
	switch {
	case len(rest) <= 1:
		return u.Scheme + "://" + u.Host
	case len(rest) > 12:
		return u.Scheme + "://" + u.Host + "/…" + rest[len(rest)-4:]
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// open returns address and key of a webhook.
func (s *Service) open(ctx context.Context, w Webhook) (address, key string, err error) {
	raw, err := s.cfg.Secrets.TeamSecret(ctx, w.SecretID, w.TeamID, secretName(w.ID))
	if err != nil {
		return "", "", err
	}
	var v sealed
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		return "", "", fmt.Errorf("reading the secret of webhook %s: %w", w.ID, err)
	}
	return v.URL, v.Key, nil
}

// RemoveWebhook deletes a webhook and what waits to be sent to it.
func (s *Service) RemoveWebhook(ctx context.Context, webhookID string) error {
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		w, err := s.cfg.Store.Webhook(ctx, webhookID)
		if err != nil {
			return err
		}
		if err := s.cfg.Store.DeleteWebhook(ctx, w.ID); err != nil {
			return err
		}
		return s.cfg.Secrets.DropTeamSecret(ctx, w.SecretID, w.TeamID)
	})
}

// Webhook returns one webhook. Errors: not_found.
func (s *Service) Webhook(ctx context.Context, webhookID string) (Webhook, error) {
	return s.cfg.Store.Webhook(ctx, webhookID)
}

// Webhooks returns those of a team, in the order they were made.
func (s *Service) Webhooks(ctx context.Context, teamID string) ([]Webhook, error) {
	return s.cfg.Store.Webhooks(ctx, teamID)
}

// Deliveries returns a page of what was sent to a webhook, newest first.
func (s *Service) Deliveries(ctx context.Context, webhookID string, pg page.Page) ([]Delivery, string, error) {
	return s.cfg.Store.Deliveries(ctx, webhookID, pg)
}

// message is the body of a delivery in the format json. It is a public contract: docs/notifications.md.
type message struct {
	ID        string          `json:"id"` // of the item: the same in every delivery of it
	Type      string          `json:"type"`
	At        int64           `json:"at"`
	Text      string          `json:"text"`
	URL       string          `json:"url,omitempty"`
	Team      messageTeam     `json:"team"`
	Workspace *messagePlace   `json:"workspace,omitempty"`
	Session   *messageSession `json:"session,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Question  *messageAsk     `json:"question,omitempty"`
}

type messageTeam struct {
	Slug string `json:"slug"`
	Name string `json:"name"`
}

type messagePlace struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	Name        string `json:"name"`
	ProjectName string `json:"project_name"`
}

type messageSession struct {
	ID        string `json:"id"`
	Agent     string `json:"agent"`
	AgentName string `json:"agent_name"`
}

type messageAsk struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
}

// hookBody is what is sent to a webhook about an item.
func (s *Service) hookBody(w Webhook, it Item, now int64) (string, error) {
	text, link := it.Sentence(), s.link(it)
	where := it.WorkspaceName
	if it.WorkspaceKey != "" {
		where = it.WorkspaceKey + " " + where
	}
	switch w.Format {
	case Slack:
		plain := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
		line := plain.Replace(cut(text, 600))
		if where != "" {
			line = "*" + plain.Replace(strings.ReplaceAll(where, "*", "")) + "*: " + line
		}
		if link != "" {
			line += " <" + link + "|Open>"
		}
		return marshal(map[string]string{"text": line})
	case Discord:
		line := cut(text, 600)
		if where != "" {
			line = "**" + strings.ReplaceAll(where, "*", "") + "**: " + line
		}
		if link != "" {
			line += "\n<" + link + ">"
		}
		// Nobody is to be pinged by what an agent prints.
		return marshal(map[string]any{"content": line, "allowed_mentions": map[string]any{"parse": []string{}}})
	}
	m := message{ID: it.ID, Type: "attention." + it.Kind, At: now, Text: cut(text, 1000), URL: link, Team: messageTeam{it.TeamSlug, it.TeamName}, Reason: cut(it.Reason, 1000)}
	if it.Kind == Ping {
		m.Type = "ping"
	}
	if it.WorkspaceID != "" {
		m.Workspace = &messagePlace{it.WorkspaceID, it.WorkspaceKey, it.WorkspaceName, it.ProjectName}
	}
	if it.SessionID != "" {
		m.Session = &messageSession{it.SessionID, it.Agent, it.AgentName}
	}
	if it.QuestionID != "" {
		m.Question = &messageAsk{it.QuestionID, cut(it.QuestionTitle, 1000), cut(it.QuestionDetail, 2000)}
	}
	return marshal(m)
}
