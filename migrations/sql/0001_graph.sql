-- What holds the graph together, whoever writes to it: no cycles, true counters, and nothing left waiting for what
-- will not come. Locks go down the graph: the edges of a project first, then an upstream task before those that depend on it.

-- Edges of a project are written, and tasks of it given up or taken up again, by one writer at a time.
create function lock_graph(project bigint) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('dependency', project))
$$;

-- The order in which tasks are locked together. What depends on a task was made after it as a rule, so that its number is the
-- higher one; but an epic is made before its tasks, and an outer one before an inner one.
create function lock_place(kind task_kind, id bigint) returns bigint language sql immutable as $$
  select case when kind = 'epic' then 9223372036854775807 - id else id end
$$;

-- Walks up from some tasks and raises an exception that names a cycle, if there is one. Every edge is walked once, depth
-- first, no matter how many paths there are. A plan that was made for a few tasks would take minutes for many.
create function walk_upstream(roots bigint[]) returns void language plpgsql set plan_cache_mode = 'force_custom_plan' as $$
declare
  -- The tasks that can be reached, and their edges by place in that list, sorted: the first of a task comes after its
  -- cursor and its last is its end. A task is open while it is on the path, closed once all above it is walked.
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
  tasks := array(
    with recursive reached (id) as (
      select unnest(roots)
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
end
$$;

create function refuse_cycles() returns trigger language plpgsql as $$
declare
  project bigint;
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
    perform lock_graph(project);
  end loop;
  if exists (select from added join dependency on dependency.upstream_id = added.task_id) then
    perform walk_upstream(array(select distinct upstream_id from added));
  end if;
  return null;
end
$$;
create trigger dependency_acyclic after insert on dependency
  referencing new table as added for each statement execute function refuse_cycles();
create trigger dependency_stays_acyclic after update on dependency
  referencing new table as added for each statement execute function refuse_cycles();


-- Events of the graph itself; the names of the first few tasks are enough for a line of the log.
create function tell_graph(kind text, project bigint, cause bigint, tasks bigint[]) returns void language sql as $$
  insert into event (kind, project_id, task_id, facts)
  values (kind, project, cause, jsonb_build_object(
    'task', 'T-' || cause,
    'count', cardinality(tasks)::text,
    'tasks', (select string_agg('T-' || id, ', ' order by id) from unnest(tasks[1:12]) as id)
      || case when cardinality(tasks) > 12 then ' ...' else '' end
  ))
$$;

-- Takes `met[i]` off the counter of `waiting[i]`. What waits for nothing any more becomes ready, except that epics and
-- barriers are done by it, which is met for those behind them in turn.
create function let_go(cause bigint, waiting bigint[], met int[]) returns void language plpgsql as $$
declare
  project bigint;
  readied bigint[];
  closed bigint[];
  all_readied bigint[] := '{}';
  all_closed bigint[] := '{}';
begin
  while cardinality(waiting) > 0 loop
    with due as (
      select task.id, given.met, task.state as was
      from unnest(waiting, met) as given (id, met)
      join task on task.id = given.id
      order by lock_place(task.kind, task.id)
      for no key update of task
    ), moved as (
      update task
      set unmet = task.unmet - due.met,
        state = case
          when due.was <> 'pending' or task.unmet > due.met then task.state
          when task.kind in ('epic', 'barrier') then 'done'
          else 'ready'
        end,
        ready_at = case when due.was = 'pending' and task.unmet = due.met then clock_now() else task.ready_at end,
        order_key = case
          when due.was = 'pending' and task.unmet = due.met then clock_now() - task.head_start else task.order_key
        end,
        finished_at = case
          when due.was = 'pending' and task.unmet = due.met and task.kind in ('epic', 'barrier') then clock_now()
          else task.finished_at
        end
      from due
      where task.id = due.id
      returning task.id, task.project_id, task.state, due.was
    )
    select min(project_id), coalesce(array_agg(id) filter (where state = 'ready'), '{}'),
      coalesce(array_agg(id) filter (where state = 'done' and was = 'pending'), '{}')
    into project, readied, closed
    from moved
    where was = 'pending';
    all_readied := all_readied || readied;
    all_closed := all_closed || closed;
    exit when cardinality(closed) = 0;
    select array_agg(task_id), array_agg(edges) into waiting, met
    from (
      select task_id, count(*)::int as edges from dependency where upstream_id = any(closed) and not waived group by task_id
    ) as next;
  end loop;
  if cardinality(all_readied) > 0 then
    perform tell_graph('task.unblocked', project, cause, all_readied);
  end if;
  if cardinality(all_closed) > 0 then
    perform tell_graph('task.closed', project, cause, all_closed);
  end if;
end
$$;

-- Marks everything that waits, directly or not, for a task that will not be done; the way to it may lead through what
-- another one blocks. Nobody may add a way meanwhile, or take away the last one.
create function block_downstream(culprit bigint) returns void language plpgsql as $$
declare
  project bigint;
  blocked bigint[];
begin
  if not exists (select from dependency where upstream_id = culprit and not waived) then
    return;
  end if;
  perform lock_graph(project_id) from task where id = culprit;
  with recursive down (id) as (
    select task.id from dependency join task on task.id = dependency.task_id
    where dependency.upstream_id = culprit and not dependency.waived
      and (task.state = 'pending' or task.culprit_id is not null)
    union
    select task.id from down join dependency on dependency.upstream_id = down.id join task on task.id = dependency.task_id
    where not dependency.waived and (task.state = 'pending' or task.culprit_id is not null)
  ), held as (
    select task.id from task where task.id in (select id from down) and task.state = 'pending'
    order by lock_place(task.kind, task.id)
    for no key update
  ), moved as (
    update task set state = 'blocked', culprit_id = culprit from held
    where task.id = held.id and task.state = 'pending'
    returning task.id, task.project_id
  )
  select min(project_id), array_agg(id) into project, blocked from moved;
  if blocked is not null then
    perform tell_graph('task.blocked', project, culprit, blocked);
  end if;
end
$$;

-- A task that will not be done unless somebody does something about it.
create function is_lost(state task_state, retry_at timestamptz) returns boolean language sql immutable as $$
  select state in ('cancelled', 'dead_letter') or (state = 'failed' and retry_at is null)
$$;

-- Lets what a culprit blocked wait again; what another one blocks too is blocked by that one.
create function unblock_downstream(culprit bigint) returns void language plpgsql as $$
declare
  other bigint;
  freed bigint[];
begin
  if not exists (select from dependency where upstream_id = culprit)
    and not exists (select from task where culprit_id = culprit)
  then
    return;
  end if;
  perform lock_graph(project_id) from task where id = culprit;
  with held as (
    select id from task where culprit_id = culprit order by lock_place(kind, id) for no key update
  ), moved as (
    update task set state = 'pending', culprit_id = null from held
    where task.id = held.id and task.culprit_id = culprit
    returning task.id
  )
  select coalesce(array_agg(id), '{}') into freed from moved;
  for other in
    select distinct coalesce(task.culprit_id, task.id)
    from dependency join task on task.id = dependency.upstream_id
    where dependency.task_id = any(freed) and not dependency.waived
      and (is_lost(task.state, task.retry_at) or task.culprit_id is not null)
    order by 1
  loop
    perform block_downstream(other);
  end loop;
end
$$;

-- Lets everything wait again that is blocked at or behind some tasks, to which a way was closed; what is blocked by another
-- way is blocked again by that one.
create function unblock_behind(starts bigint[]) returns void language plpgsql as $$
declare
  culprit bigint;
begin
  for culprit in
    with recursive down (id) as (
      select unnest(starts)
      union
      select task.id from down join dependency on dependency.upstream_id = down.id join task on task.id = dependency.task_id
      where not dependency.waived and (task.state = 'pending' or task.culprit_id is not null)
    )
    select distinct task.culprit_id from down join task on task.id = down.id where task.culprit_id is not null order by 1
  loop
    perform unblock_downstream(culprit);
  end loop;
end
$$;

-- A task was done: its edges are met.
create function on_done() returns trigger language plpgsql as $$
declare
  waiting bigint[];
  met int[];
begin
  if is_lost(old.state, old.retry_at) then
    perform unblock_downstream(new.id);
  end if;
  if old.culprit_id is not null or is_lost(old.state, old.retry_at) then
    perform unblock_behind(array[new.id]);
  end if;
  select array_agg(task_id), array_agg(1) into waiting, met
  from dependency where upstream_id = new.id and not waived;
  if waiting is not null then
    perform let_go(new.id, waiting, met);
  end if;
  return null;
end
$$;
create trigger task_done after update of state on task for each row
  when (new.state = 'done' and old.state <> 'done' and pg_trigger_depth() = 0) execute function on_done();

-- A task will not be done: an epic goes on without its cancelled child, all others wait for somebody's decision.
create function on_lost() returns trigger language plpgsql as $$
begin
  if new.state = 'cancelled' and new.parent_id is not null then
    update dependency set waived = true where task_id = new.parent_id and upstream_id = new.id and not waived;
  end if;
  if old.culprit_id is not null then
    perform unblock_behind(array[new.id]);
  end if;
  perform block_downstream(new.id);
  return null;
end
$$;
-- What is_lost says is written out: a function is unfolded anew by every statement that moves a task.
create trigger task_lost after update of state on task for each row
  when (
    (new.state in ('cancelled', 'dead_letter') or (new.state = 'failed' and new.retry_at is null))
    and not (old.state in ('cancelled', 'dead_letter') or (old.state = 'failed' and old.retry_at is null))
  ) execute function on_lost();

-- There is hope again for a task that was lost.
create function on_found() returns trigger language plpgsql as $$
begin
  perform unblock_downstream(new.id);
  return null;
end
$$;
create trigger task_found after update of state on task for each row
  when (
    (old.state in ('cancelled', 'dead_letter') or (old.state = 'failed' and old.retry_at is null))
    and not (new.state in ('cancelled', 'dead_letter', 'done') or (new.state = 'failed' and new.retry_at is null))
  ) execute function on_found();

-- A task waits again that was over or that somebody had: for what will not be done it must not.
create function on_waiting() returns trigger language plpgsql as $$
declare
  culprit bigint;
begin
  select min(coalesce(task.culprit_id, task.id)) into culprit
  from dependency join task on task.id = dependency.upstream_id
  where dependency.task_id = new.id and not dependency.waived
    and (is_lost(task.state, task.retry_at) or task.culprit_id is not null);
  if culprit is not null then
    perform block_downstream(culprit);
  end if;
  return null;
end
$$;
create trigger task_waits after update of state on task for each row
  when (new.state = 'pending' and old.state <> 'pending' and pg_trigger_depth() = 0) execute function on_waiting();

-- New edges: count what is not done yet. An upstream task that is being finished right now is waited for first. The
-- first edges of a task are all that its counter counts, so that tasks may be written with the right one beforehand.
create function on_edges_added() returns trigger language plpgsql as $$
declare
  culprit bigint;
begin
  perform from task where id in (select upstream_id from added) order by lock_place(kind, id) for share;
  with due as (
    select added.task_id, count(*) as edges, count(*) filter (where task.state <> 'done' and not added.waived) as open
    from added join task on task.id = added.upstream_id
    group by added.task_id
  ), told as (
    select due.task_id, due.open,
      not exists (select from dependency where dependency.task_id = due.task_id offset due.edges) as are_first
    from due
  ), held as (
    select task.id, told.open, told.are_first
    from task join told on told.task_id = task.id
    where case when told.are_first then task.unmet <> told.open else told.open > 0 end
    order by lock_place(task.kind, task.id)
    for no key update of task
  )
  update task
  set unmet = held.open + case when held.are_first then 0 else unmet end,
    state = case when state = 'ready' and session_id is null and held.open > 0 then 'pending' else state end
  from held
  where task.id = held.id;
  for culprit in
    select distinct coalesce(task.culprit_id, task.id)
    from added join task on task.id = added.upstream_id
    where not added.waived and (is_lost(task.state, task.retry_at) or task.culprit_id is not null)
    order by 1
  loop
    perform block_downstream(culprit);
  end loop;
  return null;
end
$$;
create trigger dependency_counted after insert on dependency
  referencing new table as added for each statement execute function on_edges_added();

-- Before an edge stops to count: its upstream task stays as it is until that is counted, or has been finished already.
create function hold_upstream() returns trigger language plpgsql as $$
begin
  perform from task where id = old.upstream_id for share;
  return case when tg_op = 'DELETE' then old else new end;
end
$$;
create trigger dependency_held before update or delete on dependency for each row execute function hold_upstream();

-- Edges that count no more: they were removed or waived.
create function on_edges_gone() returns trigger language plpgsql as $$
declare
  waiting bigint[];
  met int[];
begin
  perform unblock_behind(array(select task_id from gone));
  select array_agg(task_id), array_agg(edges) into waiting, met
  from (
    select gone.task_id, count(*)::int as edges
    from gone join task on task.id = gone.upstream_id
    where task.state <> 'done' and not gone.waived
    group by gone.task_id
  ) as due;
  perform let_go((select min(upstream_id) from gone), waiting, met);
  return null;
end
$$;
create trigger dependency_removed after delete on dependency
  referencing old table as gone for each statement execute function on_edges_gone();

create function on_edges_waived() returns trigger language plpgsql as $$
declare
  waiting bigint[];
  met int[];
begin
  perform unblock_behind(array(select task_id from changed where waived));
  select array_agg(task_id), array_agg(edges) into waiting, met
  from (
    select changed.task_id, count(*)::int as edges
    from changed
    join before on before.task_id = changed.task_id and before.upstream_id = changed.upstream_id
    join task on task.id = changed.upstream_id
    where task.state <> 'done' and changed.waived and not before.waived
    group by changed.task_id
  ) as due;
  perform let_go((select min(upstream_id) from changed), waiting, met);
  return null;
end
$$;
create trigger dependency_waived after update on dependency
  referencing old table as before new table as changed for each statement execute function on_edges_waived();
