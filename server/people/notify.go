package people

import (
	"context"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func scopeOf(v string) *api.NotifyScope { s := api.NotifyScope(v); return &s }

func (h Notifications) notifications(ctx context.Context) (api.NotificationSettings, error) {
	user := rest.CallOf(ctx).Actor.User.ID
	rules, err := h.cfg.Notify.RulesOf(ctx, user)
	if err != nil {
		return api.NotificationSettings{}, err
	}
	key, err := h.cfg.Notify.PushKey(ctx)
	if err != nil {
		return api.NotificationSettings{}, err
	}
	browsers, err := h.cfg.Notify.Subscriptions(ctx, user)
	if err != nil {
		return api.NotificationSettings{}, err
	}
	return api.NotificationSettings{PushKey: key, Browsers: rest.List(browsers, browserOf), Rules: api.NotificationRules{Question: scopeOf(rules[notify.Question]),
		Failed: scopeOf(rules[notify.Failed]), Stuck: scopeOf(rules[notify.Stuck]), Finished: scopeOf(rules[notify.Finished]), Review: scopeOf(rules[notify.Review]), Budget: scopeOf(rules[notify.Budget])}}, nil
}

func browserOf(p notify.Subscription) api.PushSubscription {
	return api.PushSubscription{Id: p.ID, Label: p.Label, CreatedAt: p.CreatedAt, UsedAt: rest.Ptr(p.UsedAt)}
}

func (h Notifications) GetNotifications(ctx context.Context, _ api.GetNotificationsRequestObject) (api.GetNotificationsResponseObject, error) {
	out, err := h.notifications(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetNotifications200JSONResponse(out), nil
}

func (h Notifications) SetNotifications(ctx context.Context, req api.SetNotificationsRequestObject) (api.SetNotificationsResponseObject, error) {
	rules := notify.Rules{}
	for kind, v := range map[string]*api.NotifyScope{notify.Question: req.Body.Question, notify.Failed: req.Body.Failed, notify.Stuck: req.Body.Stuck, notify.Finished: req.Body.Finished,
		notify.Review: req.Body.Review, notify.Budget: req.Body.Budget} {
		if v != nil {
			rules[kind] = string(*v)
		}
	}
	if _, err := h.cfg.Notify.SetRules(ctx, rest.CallOf(ctx).Actor.User.ID, rules); err != nil {
		return nil, err
	}
	out, err := h.notifications(ctx)
	if err != nil {
		return nil, err
	}
	return api.SetNotifications200JSONResponse(out), nil
}

func (h Notifications) AddPushSubscription(ctx context.Context, req api.AddPushSubscriptionRequestObject) (api.AddPushSubscriptionResponseObject, error) {
	b := req.Body
	sub, err := h.cfg.Notify.Subscribe(ctx, notify.Subscription{UserID: rest.CallOf(ctx).Actor.User.ID, Endpoint: b.Endpoint, P256dh: b.P256dh, Auth: b.Auth, Label: rest.Val(b.Label)})
	if err != nil {
		return nil, err
	}
	return api.AddPushSubscription201JSONResponse(browserOf(sub)), nil
}

func (h Notifications) DeletePushSubscription(ctx context.Context, req api.DeletePushSubscriptionRequestObject) (api.DeletePushSubscriptionResponseObject, error) {
	if err := h.cfg.Notify.Unsubscribe(ctx, rest.CallOf(ctx).Actor.User.ID, req.Id); err != nil {
		return nil, err
	}
	return api.DeletePushSubscription204Response{}, nil
}

func (h Notifications) TestPushSubscription(ctx context.Context, req api.TestPushSubscriptionRequestObject) (api.TestPushSubscriptionResponseObject, error) {
	if err := h.cfg.Notify.TestPush(ctx, rest.CallOf(ctx).Actor.User.ID, req.Id); err != nil {
		return nil, err
	}
	return api.TestPushSubscription204Response{}, nil
}

func webhookOf(w notify.Webhook) api.Webhook {
	kinds := make([]api.NotifyKind, 0, len(w.Kinds))
	for _, k := range w.Kinds {
		kinds = append(kinds, api.NotifyKind(k))
	}
	return api.Webhook{Id: w.ID, Name: w.Name, ShownUrl: w.Shown, Format: api.WebhookFormat(w.Format), Kinds: kinds, Enabled: w.Enabled, DisabledReason: w.Why,
		FailingSince: rest.Ptr(w.FailedAt), CreatedBy: w.CreatedBy, CreatedAt: w.CreatedAt}
}

func deliveryOf(d notify.Delivery) api.WebhookDelivery {
	out := api.WebhookDelivery{Id: d.ID, Kind: d.Kind, ItemId: d.ItemID, State: api.WebhookDeliveryState(d.State), Attempts: d.Attempts, Error: d.Error,
		DurationMs: d.DurationMs, CreatedAt: d.CreatedAt, DoneAt: rest.Ptr(d.DoneAt)}
	if d.Status != 0 {
		out.Status = &d.Status
	}
	if d.State == notify.Pending {
		out.NextAt = rest.Ptr(d.NextAt)
	}
	return out
}

func (h Notifications) ListWebhooks(ctx context.Context, _ api.ListWebhooksRequestObject) (api.ListWebhooksResponseObject, error) {
	all, err := h.cfg.Notify.Webhooks(ctx, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListWebhooks200JSONResponse{Items: rest.List(all, webhookOf)}, nil
}

func kindsOf(kinds *[]api.NotifyKind) *[]string {
	if kinds == nil {
		return nil
	}
	out := rest.List(*kinds, func(k api.NotifyKind) string { return string(k) })
	return &out
}

func (h Notifications) CreateWebhook(ctx context.Context, req api.CreateWebhookRequestObject) (api.CreateWebhookResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	w, key, err := h.cfg.Notify.AddWebhook(ctx, call.Team.ID, call.Actor.User.ID, notify.WebhookChange{Name: b.Name, URL: &b.Url, Format: (*string)(b.Format), Kinds: kindsOf(b.Kinds)})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "webhook", w.ID, w.Name)
	return api.CreateWebhook201JSONResponse{Webhook: webhookOf(w), SigningKey: key}, nil
}

func (h Notifications) UpdateWebhook(ctx context.Context, req api.UpdateWebhookRequestObject) (api.UpdateWebhookResponseObject, error) {
	b := req.Body
	w, key, err := h.cfg.Notify.ChangeWebhook(ctx, req.Id, rest.CallOf(ctx).Actor.User.ID, notify.WebhookChange{Name: b.Name, URL: b.Url, Format: (*string)(b.Format), Kinds: kindsOf(b.Kinds), Enabled: b.Enabled})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "webhook", w.ID, w.Name)
	out := webhookOf(w)
	out.SigningKey = rest.Text(key)
	return api.UpdateWebhook200JSONResponse(out), nil
}

func (h Notifications) DeleteWebhook(ctx context.Context, req api.DeleteWebhookRequestObject) (api.DeleteWebhookResponseObject, error) {
	if err := h.cfg.Notify.RemoveWebhook(ctx, req.Id); err != nil {
		return nil, err
	}
	return api.DeleteWebhook204Response{}, nil
}

func (h Notifications) TestWebhook(ctx context.Context, req api.TestWebhookRequestObject) (api.TestWebhookResponseObject, error) {
	team := rest.CallOf(ctx).Team
	d, err := h.cfg.Notify.TestWebhook(ctx, req.Id, team.Slug, team.Name)
	if err != nil {
		return nil, err
	}
	return api.TestWebhook200JSONResponse(deliveryOf(d)), nil
}

func (h Notifications) ListDeliveries(ctx context.Context, req api.ListDeliveriesRequestObject) (api.ListDeliveriesResponseObject, error) {
	all, next, err := h.cfg.Notify.Deliveries(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	return api.ListDeliveries200JSONResponse{Items: rest.List(all, deliveryOf), NextCursor: rest.Text(next)}, nil
}

func (h Notifications) Redeliver(ctx context.Context, req api.RedeliverRequestObject) (api.RedeliverResponseObject, error) {
	d, err := h.cfg.Notify.Redeliver(ctx, req.Id, req.Body.DeliveryId)
	if err != nil {
		return nil, err
	}
	return api.Redeliver202JSONResponse(deliveryOf(d)), nil
}
