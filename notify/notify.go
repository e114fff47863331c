// Package notify notifies people who do not look at the web app that something needs them, through a team's webhooks and the push
// services of members' browsers. The inbox decides what waits for whom. notify records each item once, decides who receives it,
// and delivers the message through an outbox that survives a restart of the server.
package notify

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
)

// The kinds of notifications, as in the inbox.
const (
	Question = "question"
	Failed   = "failed"
	Stuck    = "stuck"
	Finished = "finished"
	Review   = "review" // an agent has worked on a review
	Budget   = "budget" // work reached a limit of time or money, or is near it
	Ping     = "ping"   // a test
)

// Kinds lists the kinds that people can choose.
var Kinds = []string{Question, Failed, Stuck, Finished, Review, Budget}

// Item is one thing that waits for people. ID never names another thing.
type Item struct {
	ID, Kind                                              string
	TeamID, TeamSlug, TeamName                            string
	WorkspaceID, WorkspaceKey, WorkspaceName, ProjectName string
	SessionID, Agent, AgentName                           string
	Reason                                                string
	Since                                                 int64    // ms UTC
	QuestionID, QuestionTitle, QuestionDetail             string   // of a question
	Owners                                                []string // users who started it
	OnlyFor                                               string   // the only user who may be notified of it, "" = the team
	NoHooks, NoPush                                       bool     // the team does not want it through webhooks, or through push messages
}

// Inbox is where items come from.
type Inbox interface {
	// Items returns what waits for people in a team now.
	Items(ctx context.Context, teamID string) ([]Item, error)
}

// Bus is where news come from.
type Bus interface {
	Subscribe(teamID string, since int64) *events.Sub
}

// Secrets keeps what webhooks are sent with: sealed, of a team.
type Secrets interface {
	KeepTeamSecret(ctx context.Context, teamID, name, value, by string) (secretID string, err error)
	TeamSecret(ctx context.Context, secretID, teamID, name string) (value string, err error)
	DropTeamSecret(ctx context.Context, secretID, teamID string) error
	// Seal and Unseal are for what belongs to the instance.
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
}

// Doer sends requests to addresses people entered; internal/egress makes one.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
	Check(rawURL string) error
}

// Store is the storage that the service needs. Errors: fault.NotFound for an unknown id.
type Store interface {
	WebhookStore
	OutboxStore
	SubscriptionStore
	SettingStore

	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	TeamIDs(ctx context.Context) ([]string, error)
	// NoteItem stores that an item was seen; false when it was already.
	NoteItem(ctx context.Context, teamID, itemID string, at int64) (fresh bool, err error)
}

// WebhookStore keeps webhooks.
type WebhookStore interface {
	InsertWebhook(ctx context.Context, w Webhook) error
	UpdateWebhook(ctx context.Context, w Webhook) error
	DeleteWebhook(ctx context.Context, id string) error
	Webhook(ctx context.Context, id string) (Webhook, error)
	Webhooks(ctx context.Context, teamID string) ([]Webhook, error)
}

// OutboxStore keeps deliveries until they were made.
type OutboxStore interface {
	InsertDelivery(ctx context.Context, d Delivery) error
	// Due returns deliveries to try now, oldest first, and when the next one after them is due (0 = none).
	Due(ctx context.Context, now int64, limit int) (due []Delivery, next int64, err error)
	// Claim reserves a pending delivery until a time; false when somebody else has it.
	Claim(ctx context.Context, id string, now, until int64) (bool, error)
	UpdateDelivery(ctx context.Context, d Delivery) error
	Delivery(ctx context.Context, id string) (Delivery, error)
	Deliveries(ctx context.Context, webhookID string, pg page.Page) ([]Delivery, string, error)
	// DeliveriesAbout returns those about an item, newest first.
	DeliveriesAbout(ctx context.Context, itemID string) ([]Delivery, error)
	// Prune drops deliveries that ended, and items seen, before a time.
	Prune(ctx context.Context, before int64) error
}

// SubscriptionStore stores the browsers that get push messages, and which notifications each user wants.
type SubscriptionStore interface {
	// Targets returns the browsers of a team's members and their rules.
	Targets(ctx context.Context, teamID string) ([]Target, error)
	// PutSubscription stores a browser; one with the same endpoint is replaced.
	PutSubscription(ctx context.Context, s Subscription) error
	Subscription(ctx context.Context, id string) (Subscription, error)
	Subscriptions(ctx context.Context, userID string) ([]Subscription, error)
	DeleteSubscription(ctx context.Context, id string) error
	UsedSubscription(ctx context.Context, id string, at int64) error
	// Rules returns a user's rules; nil when none were chosen.
	Rules(ctx context.Context, userID string) (Rules, error)
	PutRules(ctx context.Context, userID string, r Rules, at int64) error
}

// SettingStore keeps settings of the instance.
type SettingStore interface {
	Setting(ctx context.Context, key string) (string, error)
	SetSetting(ctx context.Context, key, value string) error
}

// Config is what a Service is made of.
type Config struct {
	Store     Store
	Notices   NoticeStore
	Events    events.Publisher // nil = no page learns that notices have changed
	Inbox     Inbox
	Bus       Bus
	Secrets   Secrets
	Client    Doer
	PublicURL string // of the server, for links; "" = links are left out
	Version   string
	Now       func() time.Time
	Log       *slog.Logger

	Settle   time.Duration // how long news of a team are gathered; default 400 ms
	Patience time.Duration // how long a question may be answered before push messages go out; default 4 s
}

// Service sends notifications. Safe for concurrent use.
type Service struct {
	cfg Config

	mu    sync.Mutex
	dirty map[string]struct{} // teams to look at
	wake  chan struct{}       // dirty teams
	post  chan struct{}       // new deliveries

	keysMu sync.Mutex
	keys   *pushKeys
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil || c.Notices == nil || c.Inbox == nil || c.Bus == nil || c.Secrets == nil || c.Client == nil {
		return errors.New("notify: Store, Notices, Inbox, Bus, Secrets and Client are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Settle <= 0 {
		c.Settle = 400 * time.Millisecond
	}
	if c.Patience <= 0 {
		c.Patience = 4 * time.Second
	}
	return nil
}

// New makes a Service. It starts nothing; it panics on a Config that Validate refuses.
func New(cfg Config) *Service {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Service{cfg: cfg, dirty: map[string]struct{}{}, wake: make(chan struct{}, 1), post: make(chan struct{}, 1)}
}

// Run looks for what is new and delivers until ctx ends, then returns when everything under way has ended.
func (s *Service) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { s.listen(ctx) })
	all.Go(func() { s.look(ctx) })
	all.Go(func() { s.deliverLoop(ctx) })
	all.Wait()
	return nil
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

func poke(c chan struct{}) {
	tasks.Wake(c)
}
