package prestop

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Run waits for the drain behind socket for at most timeout, and then runs the user's hook, a LifecycleHandler in JSON; an empty text is no
// hook. An error is the hook's: a drain that was not over in time is only said to log, for the app must still get its hook and its SIGTERM.
// A hook that cannot be run is an error after the drain, never instead of it.
func Run(ctx context.Context, socket string, timeout time.Duration, text string, log io.Writer) error {
	if report, err := Wait(ctx, socket, timeout); err != nil {
		fmt.Fprintf(log, "prestop: %v (running %d, unsettled %d)\n", err, report.Running, report.Unsettled)
	}
	hook, err := ParseHook(text)
	if err != nil {
		return err
	}
	return hook.Run(ctx)
}
