"""Which job a decision record is about: never two jobs for one record, ties told as ties."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sluice.slurm.record_matching import (
    WINDOW,
    JobTraits,
    Matching,
    RecordTraits,
    Submitted,
    fits,
    marks_in,
    match,
)

RECORD = RecordTraits(uid=1000, now=100, name="lammps", is_array=False, component=None)
JOB = JobTraits(
    uid=1000,
    submit=100,
    name="lammps",
    is_array=False,
    component=None,
    nodes=1,
    partitions=("main",),
)

# Few values, so that collisions are common.
small_records = st.builds(
    RecordTraits,
    uid=st.sampled_from([1, 2]),
    now=st.integers(100, 104),
    name=st.sampled_from(["a", "b"]),
    is_array=st.booleans(),
    component=st.sampled_from([None, None, 0, 1]),
    time_limit=st.sampled_from([0, 5]),
)
small_jobs = st.builds(
    JobTraits,
    uid=st.sampled_from([1, 2]),
    submit=st.integers(100, 104),
    name=st.sampled_from(["a", "b"]),
    is_array=st.booleans(),
    component=st.sampled_from([None, None, 0, 1, 2]),
    nodes=st.just(1),
    time_limit=st.sampled_from([None, 5, 10]),
    partitions=st.just(("main",)),
)
marks = st.lists(st.tuples(st.just(7), st.integers(1, 8)), max_size=2).map(tuple)
small_submissions = st.lists(st.tuples(small_jobs, marks, st.booleans()), max_size=8).map(
    lambda rows: [
        Submitted(number, traits, found, requeued)
        for number, (traits, found, requeued) in enumerate(rows)
    ]
)
small_models = st.tuples(
    st.lists(small_records, max_size=8).map(
        lambda rows: {(7, number): traits for number, traits in enumerate(rows, 1)}
    ),
    small_submissions,
)


def joined(result: Matching[int]) -> dict[tuple[int, int], int]:
    return {join.record: join.job for join in result.joins}


@given(small_models)
def test_no_record_and_no_job_is_in_two_places(mean_field):
    records, jobs = mean_field
    result = match(records, jobs)
    seen_records = [join.record for join in result.joins]
    seen_jobs = [join.job for join in result.joins]
    for tie in result.ties:
        seen_records += tie.records
        seen_jobs += tie.jobs
    assert len(seen_records) == len(set(seen_records))
    assert len(seen_jobs) == len(set(seen_jobs))


@given(small_models)
def test_a_record_joined_by_key_fits_one_job_only_and_the_job_one_record_only(mean_field):
    records, jobs = mean_field
    result = match(records, jobs)
    by_mark = {join.record for join in result.joins if join.by == "mark"}
    taken = {join.job for join in result.joins if join.by == "mark"}
    for join in result.joins:
        if join.by == "key":
            others = [j for j in jobs if j.key not in taken and not j.requeued]
            assert [j.key for j in others if fits(records[join.record], j.traits)] == [join.job]
            job = next(j for j in jobs if j.key == join.job)
            rivals = [key for key in records if key not in by_mark]
            assert [key for key in rivals if fits(records[key], job.traits)] == [join.record]


@given(small_models)
def test_whatever_has_several_candidates_is_reported_as_a_tie(mean_field):
    records, jobs = mean_field
    result = match(records, jobs)
    done = joined(result)
    tied = {key for tie in result.ties for key in tie.records}
    for key, traits in records.items():
        candidates = [
            j.key
            for j in jobs
            if not j.requeued and j.key not in done.values() and fits(traits, j.traits)
        ]
        if key not in done:
            assert bool(candidates) == (key in tied)


@given(small_models, st.randoms(use_true_random=False))
def test_the_order_of_jobs_does_not_matter(mean_field, random):
    records, jobs = mean_field
    shuffled = list(jobs)
    random.shuffle(shuffled)
    assert joined(match(records, jobs)) == joined(match(records, shuffled))


@given(small_models)
def test_a_note_never_joins_another_users_job(mean_field):
    records, jobs = mean_field
    uids = {job.key: job.traits.uid for job in jobs}
    for join in match(records, jobs).joins:
        assert records[join.record].uid == uids[join.job]


def test_one_record_and_one_job_are_joined():
    assert joined(match({(7, 1): RECORD}, [Submitted(12, JOB)])) == {(7, 1): 12}


def test_two_equal_submissions_in_a_second_are_a_tie():
    result = match({(7, 1): RECORD, (7, 2): RECORD}, [Submitted(12, JOB), Submitted(13, JOB)])
    assert result.joins == []
    assert [(tie.records, sorted(tie.jobs)) for tie in result.ties] == [
        (((7, 1), (7, 2)), [12, 13])
    ]


def test_a_rejected_submission_alongside_an_equal_accepted_one_is_a_tie():
    result = match({(7, 1): RECORD, (7, 2): RECORD}, [Submitted(12, JOB)])
    assert result.joins == []
    assert len(result.ties) == 1


def test_a_note_breaks_a_tie_and_leaves_the_rest_certain():
    result = match(
        {(7, 1): RECORD, (7, 2): RECORD}, [Submitted(12, JOB, marks=((7, 2),)), Submitted(13, JOB)]
    )
    assert joined(result) == {(7, 2): 12, (7, 1): 13}
    assert {join.by for join in result.joins} == {"mark", "key"}


def test_a_note_joins_a_job_whose_name_was_changed_and_that_was_requeued():
    job = Submitted(12, replace(JOB, name="other", submit=900), marks=((7, 1),), requeued=True)
    assert joined(match({(7, 1): RECORD}, [job])) == {(7, 1): 12}


def test_a_note_that_two_jobs_carry_proves_nothing():
    jobs = [Submitted(n, replace(JOB, name="x"), marks=((7, 1),)) for n in (12, 13)]
    assert match({(7, 1): RECORD}, jobs) == Matching()


def test_components_of_a_heterogeneous_job_are_told_apart_by_their_place():
    records = {
        (7, 1): replace(RECORD, component=0),
        (7, 2): replace(RECORD, component=1),
    }
    jobs = [Submitted(4 + i, replace(JOB, component=i)) for i in range(2)]
    assert joined(match(records, jobs)) == {(7, 1): 4, (7, 2): 5}


def test_two_later_components_of_one_name_are_a_tie():
    records = {(7, i): replace(RECORD, component=min(i, 1)) for i in range(3)}
    jobs = [Submitted(4 + i, replace(JOB, component=i)) for i in range(3)]
    result = match(records, jobs)
    assert joined(result) == {(7, 0): 4}
    assert [sorted(tie.jobs) for tie in result.ties] == [[5, 6]]


def test_what_the_user_gave_tells_jobs_apart():
    records = {
        (7, 1): replace(RECORD, time_limit=5),
        (7, 2): replace(RECORD, time_limit=10),
        (7, 3): replace(RECORD, account="physics"),
        (7, 4): replace(RECORD, partitions=("debug",)),
        (7, 5): replace(RECORD, nodes=4, submit_line_hash=9),
    }
    jobs = [
        Submitted(1, replace(JOB, time_limit=5)),
        Submitted(2, replace(JOB, time_limit=10)),
    ]
    assert joined(match({k: records[k] for k in [(7, 1), (7, 2)]}, jobs)) == {(7, 1): 1, (7, 2): 2}
    assert not fits(records[7, 3], JOB)
    assert not fits(records[7, 4], JOB)
    assert not fits(records[7, 5], JOB)
    assert not fits(RECORD, replace(JOB, submit_line_hash=9))


def test_jobs_out_of_the_window_are_never_candidates():
    for offset in (-WINDOW - 1, WINDOW + 1):
        assert match({(7, 1): RECORD}, [Submitted(12, replace(JOB, submit=100 + offset))]) == (
            Matching()
        )


def test_notes_are_found_wherever_a_site_put_its_own_words():
    note = "sluice(v=1,rec=00000000000000ab-17,act=leave,why=harmless)"
    assert marks_in(note) == ((0xAB, 17),)
    assert marks_in(f"site text {note} StdErr=/dev/null") == ((0xAB, 17),)
    assert marks_in("sluice(v=1,rec=xyz-17,") == ()
    assert marks_in("sluice(v=2,rec=ab-17,") == ()
    assert marks_in("") == ()


def test_ten_thousand_equal_submissions_are_one_tie():
    records = {(7, number): RECORD for number in range(10_000)}
    jobs = [Submitted(number, JOB) for number in range(10_000)]
    result = match(records, jobs)
    assert [len(tie.records) for tie in result.ties] == [10_000]
