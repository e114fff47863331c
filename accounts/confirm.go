package accounts

import (
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// confirmedFor is how long a proof of who somebody is lasts for changes to how they sign in: a browser left open must not be enough.
const confirmedFor = 15 * time.Minute

// NeedConfirmed returns nil where the actor proved who they are a short while ago; confirm_needed otherwise. A token confirms nothing
// and needs no confirmation: what tokens may not do at all is refused by NoToken.
func (s *Service) NeedConfirmed(actor Actor) error {
	if actor.TokenID != "" || s.now() < actor.ConfirmedAt+confirmedFor.Milliseconds() {
		return nil
	}
	return fault.New(fault.Forbidden, "confirm_needed", "Confirm that it is you first: this changes how you sign in, and you last did so more than %d minutes ago.", int(confirmedFor/time.Minute))
}

// NoToken refuses API tokens what people do in the web app only, and asks them to have confirmed who they are.
func (s *Service) NoToken(actor Actor) error {
	if actor.TokenID != "" || actor.SessionHash == "" {
		return fault.New(fault.Forbidden, "token_not_allowed", "How somebody signs in is changed in the web app, not with an API token.")
	}
	return s.NeedConfirmed(actor)
}
