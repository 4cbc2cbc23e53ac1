package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpdateFeatures, versions 0 to 2 (KIP-584).
//
//	v1  only to check, and the type of the upgrade
//	v2  one error for all features
//
// The levels of features are fixed.

// How a feature is to change, see UpdateFeaturesRequest in Kafka's protocol.
const upgradeFeature = 1

// updateFeatures accepts the levels that features have; they are fixed. Either all
// updates are accepted or none.
func (s *Server) updateFeatures(_ context.Context, c *conn, req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	var failed error
	for i := range req.FeatureUpdates {
		if failed = checkFeature(&req.FeatureUpdates[i]); failed != nil {
			break
		}
	}
	resp.ErrorCode, resp.ErrorMessage = s.outcome(c, "UpdateFeatures", failed)
	if req.Version >= 2 || failed != nil {
		return resp
	}
	for _, u := range req.FeatureUpdates {
		one := kmsg.NewUpdateFeaturesResponseResult()
		one.Feature = u.Feature
		resp.Results = append(resp.Results, one)
	}
	return resp
}

func checkFeature(u *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	for _, f := range features {
		switch {
		case f.name != u.Feature:
		case f.max == u.MaxVersionLevel:
			return nil
		case u.MaxVersionLevel > f.max || u.UpgradeType == upgradeFeature:
			return refuse(kerr.InvalidUpdateVersion, "feature %s cannot get the level %d: it has %d", u.Feature, u.MaxVersionLevel, f.max)
		default:
			return refuse(kerr.FeatureUpdateFailed, "feature %s stays at level %d, which also serves older clients", u.Feature, f.max)
		}
	}
	return refuse(kerr.InvalidUpdateVersion, "unknown feature %q", u.Feature)
}
