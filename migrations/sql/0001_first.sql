-- The model of design sections 1 to 8. What no client may break is held here.

-- The one clock that judges expiry. Tests move it with `set warploom.clock_offset = '1 hour'`.
create function clock_now() returns timestamptz
language sql stable
return now() + coalesce(nullif(current_setting('warploom.clock_offset', true), ''), '0')::interval;

create type task_state as enum (
  'idea', 'decomposed', 'pending', 'ready', 'claimed', 'done', 'failed', 'blocked', 'cancelled', 'dead_letter'
);
create type task_kind as enum ('work', 'gpu', 'job', 'barrier', 'epic', 'idea', 'question', 'skill', 'land');
create type lease_state as enum ('offered', 'active', 'ended');
create type lease_end as enum ('released', 'expired', 'lapsed', 'withdrawn');
create type env_style as enum ('uuid', 'index');
create type card_service as enum ('in_service', 'draining', 'drained', 'quarantined');
create type card_condition as enum ('clear', 'occupied', 'settling', 'foreign', 'ghost', 'lost', 'blind');

create table project (
  id bigint generated always as identity primary key,
  name text not null unique check (char_length(name) between 1 and 80),
  created_at timestamptz not null default clock_now(),
  archived_at timestamptz
);
insert into project (name) values ('default');

create table agent (
  id bigint generated always as identity primary key,
  name text not null unique check (char_length(name) between 1 and 80),
  created_at timestamptz not null default clock_now()
);

create table session (
  id bigint generated always as identity primary key,
  agent_id bigint not null references agent,
  project_id bigint not null references project,
  key text not null unique check (char_length(key) between 1 and 300),
  client text check (char_length(client) <= 80),
  directory text check (char_length(directory) <= 500),
  host_name text check (char_length(host_name) <= 80),
  pid integer check (pid > 0),
  process_started bigint,
  created_at timestamptz not null default clock_now(),
  check ((pid is null) = (process_started is null))
);
create index session_agent on session (agent_id);
create index session_process on session (host_name, pid) where pid is not null;

-- Heartbeats touch this narrow row and no other column of their session.
create table heartbeat (
  session_id bigint primary key references session on delete cascade,
  seen_at timestamptz not null
) with (fillfactor = 50);

create table host (
  id bigint generated always as identity primary key,
  name text not null unique check (char_length(name) between 1 and 80),
  provider text not null check (char_length(provider) <= 80),
  driver text check (char_length(driver) <= 80),
  version text not null check (char_length(version) <= 80),
  problem text check (char_length(problem) <= 500),
  survey_seconds double precision not null check (survey_seconds > 0),
  clock_gap_seconds double precision,
  surveyed_at timestamptz not null,
  silent_since timestamptz,
  created_at timestamptz not null default clock_now()
) with (fillfactor = 50);

create table card (
  id bigint generated always as identity primary key,
  host_id bigint not null references host,
  uuid text not null unique check (char_length(uuid) between 1 and 120),
  index integer not null check (index >= 0),
  model text not null check (char_length(model) <= 120),
  memory_mib integer not null check (memory_mib >= 0),
  pci_bus_id text check (char_length(pci_bus_id) <= 40),
  parent_uuid text check (char_length(parent_uuid) <= 120),
  service card_service not null default 'in_service',
  service_reason text check (char_length(service_reason) <= 500),
  service_since timestamptz not null default clock_now(),
  condition card_condition not null,
  condition_since timestamptz not null,
  condition_detail text check (char_length(condition_detail) <= 1000),
  observed_at timestamptz not null,
  quiet_until timestamptz,
  baseline_mib integer check (baseline_mib >= 0),
  used_mib integer check (used_mib >= 0),
  utilisation integer check (utilisation between 0 and 100),
  processes jsonb not null default '[]'
) with (fillfactor = 50);
create index card_host on card (host_id);

create table task (
  id bigint generated always as identity primary key,
  project_id bigint not null references project,
  kind task_kind not null,
  state task_state not null,
  title text not null check (char_length(title) between 1 and 200),
  purpose text check (char_length(purpose) between 1 and 300),
  context text check (char_length(context) <= 20000),
  done_when text check (char_length(done_when) <= 20000),
  parent_id bigint references task,
  priority smallint not null default 2 check (priority between 0 and 2),
  agent_id bigint references agent,
  session_id bigint references session,
  unmet integer not null default 0 check (unmet >= 0),
  attempts integer not null default 0 check (attempts >= 0),
  -- What it needs: `need_count` cards of one host (0: none), named ones or any that fit.
  need_count smallint not null default 0 check (need_count between 0 and 64),
  need_cards bigint[] not null default '{}' check (cardinality(need_cards) <= 64),
  need_memory_mib integer check (need_memory_mib > 0),
  need_model text check (char_length(need_model) between 1 and 120),
  env_style env_style not null default 'uuid',
  run_time interval check (run_time > interval '0'),
  -- The queue order: when it became ready, minus the head start of its priority.
  ready_at timestamptz,
  order_key timestamptz,
  missed_offers smallint not null default 0 check (missed_offers >= 0),
  parked_at timestamptz,
  promised_start timestamptz,
  promised_word text check (promised_word in ('measured', 'history', 'declared', 'unknown')),
  lease_id bigint,
  lease_live boolean generated always as (case when lease_id is not null then true end) stored,
  outcome text check (char_length(outcome) <= 500),
  created_at timestamptz not null default clock_now(),
  finished_at timestamptz,
  unique (id, lease_id),
  check ((state = 'claimed') = (lease_id is not null)),
  check ((state in ('done', 'failed', 'cancelled', 'dead_letter')) = (finished_at is not null)),
  check (state <> 'ready' or (unmet = 0 and ready_at is not null and order_key is not null)),
  check (parked_at is null or state = 'blocked'),
  check (kind <> 'gpu' or need_count > 0),
  check (cardinality(need_cards) in (0, need_count))
);
create unique index task_purpose on task (project_id, agent_id, purpose)
  where purpose is not null and state in ('pending', 'ready', 'claimed', 'blocked');
create index task_ready on task (project_id, order_key, id) where state = 'ready' and need_count = 0;
create index task_ticket on task (order_key, id) where state = 'ready' and need_count > 0;
create index task_waiting on task (agent_id) where state in ('ready', 'claimed', 'blocked');

-- The queue of one card: every ready ticket that may use it. Rows live only while the ticket waits.
create table queue (
  card_id bigint not null references card,
  order_key timestamptz not null,
  task_id bigint not null references task,
  primary key (card_id, order_key, task_id)
);
create index queue_task on queue (task_id);

create table dependency (
  task_id bigint not null references task,
  upstream_id bigint not null references task,
  primary key (task_id, upstream_id),
  check (task_id <> upstream_id)
);
create index dependency_upstream on dependency (upstream_id);

-- Every edge of a cycle is walked once, depth first, from the edges just added: no matter how many paths there are.
create function refuse_cycles() returns trigger language plpgsql as $$
declare
  project bigint;
  -- The tasks that the added edges lead to, and their edges by place in that list, sorted: the first of a task comes
  -- after its cursor and its last is its end. A task is open while it is on the path, closed once all below it is walked.
  tasks bigint[];
  owners int[];
  upstreams int[];
  cursors int[];
  ends int[];
  is_open boolean[];
  path int[] := '{}';
  depth int := 0;
  at int;
  next int;
begin
  if exists (
    select from added join task as one on one.id = added.task_id join task as other on other.id = added.upstream_id
    where one.project_id <> other.project_id
  ) then
    raise exception 'an edge joins two projects' using errcode = 'check_violation', constraint = 'dependency_project';
  end if;
  for project in
    select distinct task.project_id from added join task on task.id = added.task_id order by 1
  loop
    perform pg_advisory_xact_lock(hashtextextended('dependency', project));
  end loop;
  if not exists (select from added join dependency on dependency.upstream_id = added.task_id) then
    return null;
  end if;

  tasks := array(
    with recursive reached (id) as (
      select upstream_id from added
      union
      select dependency.upstream_id from reached join dependency on dependency.task_id = reached.id
    )
    select id from reached
  );
  with node as (
    select id, place::int from unnest(tasks) with ordinality as node (id, place)
  ), edge as (
    select node.place as owner, upstream.place as upstream
    from node
    join dependency on dependency.task_id = node.id
    join node as upstream on upstream.id = dependency.upstream_id
  )
  select coalesce(array_agg(owner order by owner, upstream), '{}'), array_agg(upstream order by owner, upstream)
  into owners, upstreams
  from edge;
  is_open := array_fill(null::boolean, array[cardinality(tasks)]);
  cursors := array_fill(0, array[cardinality(tasks)]);
  ends := cursors;
  for edge in 1 .. cardinality(owners) loop
    at := owners[edge];
    if ends[at] = 0 then
      cursors[at] := edge - 1;
    end if;
    ends[at] := edge;
  end loop;

  for root in 1 .. cardinality(tasks) loop
    if is_open[root] is null then
      depth := 1;
      path[1] := root;
      is_open[root] := true;
    end if;
    while depth > 0 loop
      at := path[depth];
      if cursors[at] < ends[at] then
        cursors[at] := cursors[at] + 1;
        next := upstreams[cursors[at]];
        if is_open[next] then
          raise exception 'cycle: %', (
            select string_agg('T-' || tasks[step], ' -> ' order by place)
            from unnest(path[array_position(path, next):depth] || next) with ordinality as steps (step, place)
          ) using errcode = 'check_violation', constraint = 'dependency_acyclic';
        elsif is_open[next] is null then
          depth := depth + 1;
          path[depth] := next;
          is_open[next] := true;
        end if;
      else
        is_open[at] := false;
        depth := depth - 1;
      end if;
    end loop;
  end loop;
  return null;
end
$$;
create trigger dependency_acyclic after insert on dependency
  referencing new table as added for each statement execute function refuse_cycles();
create trigger dependency_stays_acyclic after update on dependency
  referencing new table as added for each statement execute function refuse_cycles();

create table lease (
  id bigint generated always as identity primary key,
  task_id bigint not null references task,
  session_id bigint not null references session,
  agent_id bigint not null references agent,
  state lease_state not null,
  live boolean generated always as (state <> 'ended') stored,
  live_id bigint generated always as (case when state <> 'ended' then id end) stored,
  granted_at timestamptz not null default clock_now(),
  accepted_at timestamptz,
  expected_end timestamptz,
  expires_at timestamptz not null,
  ended_at timestamptz,
  ended lease_end,
  unique (id, live),
  unique (id, task_id, live),
  check ((state = 'ended') = (ended_at is not null)),
  check ((state = 'ended') = (ended is not null)),
  check (state <> 'active' or accepted_at is not null),
  check (state <> 'offered' or accepted_at is null)
) with (fillfactor = 70);
create unique index lease_task on lease (task_id) where state <> 'ended';
create index lease_live on lease (id) where state <> 'ended';
create index lease_session on lease (session_id) where state <> 'ended';

-- A claimed task has a live lease of its own, and a live lease has its claimed task; both are checked at commit.
alter table task add constraint task_lease foreign key (lease_id, id, lease_live)
  references lease (id, task_id, live) deferrable initially deferred;
alter table lease add constraint lease_claims foreign key (task_id, live_id)
  references task (id, lease_id) deferrable initially deferred;

create table lease_card (
  lease_id bigint not null,
  card_id bigint not null references card,
  live boolean not null default true,
  primary key (lease_id, card_id),
  foreign key (lease_id, live) references lease (id, live) on update cascade
);
-- One live lease per card slot: the last word in every race.
create unique index lease_card_live on lease_card (card_id) where live;
create index lease_card_history on lease_card (card_id, lease_id);

create table progress (
  lease_id bigint primary key references lease on delete cascade,
  step bigint not null check (step >= 0),
  total bigint check (total >= 1),
  rate double precision check (rate >= 0),
  spread double precision not null default 0 check (spread >= 0),
  reported_at timestamptz not null
) with (fillfactor = 50);

create table event (
  xid xid8 not null default pg_current_xact_id(),
  id bigint generated always as identity,
  at timestamptz not null default clock_now(),
  kind text not null check (char_length(kind) between 1 and 40),
  project_id bigint,
  task_id bigint,
  lease_id bigint,
  session_id bigint,
  host_id bigint,
  card_ids bigint[] not null default '{}',
  facts jsonb not null default '{}',
  primary key (xid, id)
);
create index event_at on event (at);
create index event_task on event (task_id, xid, id) where task_id is not null;

create table message (
  id bigint generated always as identity primary key,
  session_id bigint not null references session on delete cascade,
  sender text not null check (char_length(sender) between 1 and 80),
  body text not null check (char_length(body) between 1 and 4000),
  sent_at timestamptz not null default clock_now(),
  read_at timestamptz
);
create index message_unread on message (session_id, id) where read_at is null;

-- Who does the orchestrator's duties: one row, taken over when it has expired.
create table leader (
  name text primary key check (char_length(name) between 1 and 80),
  holder text not null check (char_length(holder) between 1 and 200),
  taken_at timestamptz not null,
  expires_at timestamptz not null
);
