package apicases

// DefaultedFlow is what the API server stores for Flow: the spec with every
// default.
const DefaultedFlow = `
producer:
  replicas: 1
  retryIntervalMilliseconds: 500
  deliveryConfirmation: Disabled
  streamTimeoutSeconds: 60
queue:
  type: Local
  retry: {attempts: 3, backoffMilliseconds: 100}
  operationTimeoutSeconds: 10
intake: {authentication: Token}
backlog: {maxJobs: 1000000, maxBytes: 1073741824}
payload: {maxBytes: 1048576}
deduplicationWindowSeconds: 600
redelivery:
  maxAttempts: 20
  backoff: {initialMilliseconds: 1000, maxMilliseconds: 60000}
dispatch: RoundRobin
liveness: {heartbeatSeconds: 2, deadlineSeconds: 10}
runtime:
  resources:
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 512Mi}
  updatePolicy: OnNextRollout
suspend: Disabled
deletionPolicy: Drain
`

// DefaultedPool is what the API server stores for Pool.
const DefaultedPool = `
flows: [orders]
replicas: 1
template:
  spec:
    containers:
    - {name: app, image: example.test/app}
flowControlWindow: 50
resendIntervalMilliseconds: 2000
concurrency: 1
dedup: {maxProducers: 1024, producerIdleSeconds: 300}
handler:
  http: {port: 8080, path: /, timeoutSeconds: 60}
drain: {timeoutSeconds: 120}
update: {maxSurge: 25%, maxUnavailable: 25%}
paused: Disabled
runtime:
  resources:
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 512Mi}
  updatePolicy: OnNextRollout
`
